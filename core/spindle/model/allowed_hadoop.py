"""Which Hadoop settings a KafkaCluster may give the rebalance job (``spec.rebalance.rollup.settings``).

Hadoop's settings name classes (``fs.<scheme>.impl``), scripts (``fs.azure.shellkeyprovider.script``) and files (``hadoop.security.credential.provider.path``),
and the job runs with the operator's certificate for Kafka and an account of the namespace. So only settings for the location of the store, for authentication there
and for the rate of writes are allowed. Sources: Hadoop's S3A, ABFS and HDFS client configuration; the Cloud Storage connector's CONFIGURATION.md.
"""

from typing import Final

EVERYTHING: Final = "*"

_S3A: Final = (
    "access.key", "attempts.maximum", "block.size", "change.detection.mode", "change.detection.version.required",
    "connection.establish.timeout", "connection.maximum", "connection.request.timeout", "connection.ssl.enabled", "connection.timeout",
    "create.storage.class", "encryption.algorithm", "encryption.key", "endpoint", "endpoint.fips", "endpoint.region",
    "fast.upload.active.blocks", "fast.upload.buffer", "max.total.tasks", "multipart.size", "multipart.threshold", "paging.maximum",
    "path.style.access", "proxy.host", "proxy.port", "requester.pays.enabled", "retry.interval", "retry.limit", "retry.throttle.interval",
    "retry.throttle.limit", "secret.key", "server-side-encryption-algorithm", "session.token", "threads.keepalivetime", "threads.max",
)  # fmt: skip
# An entry that ends with a dot allows everything below it: an account, a nameservice, a namenode.
SETTINGS: Final = (
    *(f"fs.s3a.{name}" for name in _S3A),
    *(f"fs.azure.account.{name}{rest}" for name in ("auth.type", "key", "oauth2.client.endpoint", "oauth2.client.id", "oauth2.client.secret", "oauth2.msi.tenant")
      for rest in ("", ".")),
    "fs.azure.always.use.https", "fs.azure.io.retry.max.retries", "fs.azure.read.request.size", "fs.azure.sas.fixed.token",
    "fs.azure.sas.fixed.token.", "fs.azure.write.request.size",
    "fs.gs.auth.type", "fs.gs.block.size", "fs.gs.project.id",
    "dfs.blocksize", "dfs.client.use.datanode.hostname", "dfs.data.transfer.protection", "dfs.encrypt.data.transfer", "dfs.ha.namenodes.",
    "dfs.namenode.http-address.", "dfs.namenode.https-address.", "dfs.namenode.rpc-address.", "dfs.nameservices", "dfs.replication",
    "fs.permissions.umask-mode", "hadoop.rpc.protection", "ipc.client.connect.max.retries", "ipc.client.connect.timeout",
    "mapreduce.fileoutputcommitter.algorithm.version",
)  # fmt: skip
# Settings whose value is one or several class names, separated by commas.
LOADERS: Final = (
    "dfs.client.failover.proxy.provider.",
    "fs.azure.account.oauth.provider.type",
    "fs.azure.account.oauth.provider.type.",
    "fs.s3a.aws.credentials.provider",
)
# The connectors' own authentication classes. None of them reads a file that a setting names, or runs a program.
CLASSES: Final = (
    *(f"org.apache.hadoop.fs.azurebfs.oauth2.{name}" for name in ("ClientCredsTokenProvider", "MsiTokenProvider")),
    "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
    "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
)  # fmt: skip
_BUCKET: Final = "fs.s3a.bucket."


def fits(key: str, entries: tuple[str, ...]) -> bool:
    """Whether an entry allows a setting: by its name, by a prefix that ends with a dot, or by ``*``."""
    return any(
        entry in (EVERYTHING, key) or (entry.endswith(".") and key.startswith(entry)) for entry in entries
    )


def loads(key: str) -> bool:
    """Whether a setting's value is one or several class names."""
    return fits(for_every_bucket(key), LOADERS)


def harmless(key: str) -> bool:
    """Whether a setting is allowed in every installation."""
    return fits(for_every_bucket(key), SETTINGS)


def for_every_bucket(key: str) -> str:
    """A setting of one S3 bucket (``fs.s3a.bucket.<bucket>.endpoint``) as that of all buckets; any other setting unchanged."""
    bucket, dot, option = key.removeprefix(_BUCKET).partition(".")
    return f"fs.s3a.{option}" if key.startswith(_BUCKET) and bucket and dot and option else key
