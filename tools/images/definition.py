"""What Spindle's images consist of: the one definition for the testbed, a release, and the Dockerfiles."""

from dataclasses import dataclass
from typing import Final

from e2e.cluster import versions

ARCHITECTURES: Final = {
    "amd64": "x86_64",
    "arm64": "aarch64",
}  # as Debian and OCI call them → as Linux and wheels do
SUITE: Final = "bookworm"  # the Debian release whose Python is 3.11
PYTHON: Final = "3.11"
USER: Final = 1000  # also of Kafka's image: both write to the same volumes
VENV: Final = "opt/spindle/venv"
SITE: Final = f"{VENV}/lib/python{PYTHON}/site-packages"
JMX: Final = "opt/spindle/jmx.jar"
JMX_ARTEFACT: Final = f"io.prometheus.jmx:jmx_prometheus_javaagent:{versions.JMX_EXPORTER}"
JMX_SHA256: Final = "7d61f737fd661610ccc14aea79764faa1ea94a340cbc8f0029b3d2edea3d80c1"

# Dependencies of Debian's packages that are left out, and why nothing misses them.
LEFT_OUT: Final = (
    *("awk", "debconf", "debianutils", "dpkg", "openssl", "readline-common"),  # only installation scripts use them
    *("libdb5.3", "libnsl2", "libtirpc3"),  # for the modules dbm.ndbm and nis of Python
    *("ca-certificates-java", "java-common", "libpcsclite1", "util-linux"),  # the file of certificates is written here
    # For fonts, pictures, printers, sound and NSS, which the JVM loads only if a program asks for them.
    *("libasound2", "libcups2", "libfontconfig1", "libfreetype6", "libharfbuzz0b", "libjpeg62-turbo", "liblcms2-2", "libnss3"),
)  # fmt: skip
BASE: Final = "base"  # the layer that both images share
BASE_PACKAGES: Final = (
    "base-files",
    "bash",
    "busybox",
    "ca-certificates",
    "libc6",
    "libgcc-s1",
    "libstdc++6",
    "netbase",
    "python3.11",
    "tzdata",
)
# Commands of busybox that have a name of their own: for a shell in a container, and for Spark's start scripts.
BUSYBOX: Final = (
    *("awk", "basename", "cat", "chmod", "cp", "cut", "date", "df", "dirname", "du", "env", "false", "find", "free", "grep", "gunzip", "gzip"),
    *("head", "hostname", "id", "kill", "less", "ln", "ls", "md5sum", "mkdir", "mktemp", "mv", "nc", "nproc", "nslookup", "printenv", "ps"),
    *("pwd", "readlink", "realpath", "rm", "rmdir", "sed", "seq", "sh", "sha256sum", "sleep", "sort", "stat", "sync", "tail", "tar", "tee"),
    *("test", "timeout", "top", "touch", "tr", "true", "uname", "uniq", "uptime", "vi", "wc", "wget", "which", "whoami", "xargs", "yes"),
)  # fmt: skip

# Files of Debian's packages that are left out: manuals, translations, and parts of Python that nothing here imports.
DEBIAN_WITHOUT: Final = (
    *("usr/share/doc/*/[!c]*", "usr/share/doc/*/changelog*", "usr/share/man/*", "usr/share/locale/*", "usr/share/info/*"),
    *("usr/share/lintian/*", "usr/share/bug/*", "usr/share/menu/*", "usr/share/applications/*", "usr/share/pixmaps/*", "usr/share/binfmts/*"),
    *("usr/lib/*-linux-gnu/gconv/*", "usr/lib/mime/*", "var/cache/*", "usr/share/bash-completion/*", "etc/cron*", "usr/share/gdb/*"),
    *("usr/lib/python3.11/lib2to3/*", "usr/lib/python3.11/pydoc_data/*", "usr/lib/python3.11/test/*", "usr/lib/python3.11/turtle*"),
    *("usr/share/python3/*", "usr/lib/valgrind/*"),
)  # fmt: skip
# Jars of Spark that are left out. The job reads records and files, computes in SQL, and writes files.
SPARK_WITHOUT: Final = (
    *("*-osx-*", "*-windows-*", "*-riscv64*"),  # native code for other systems
    *(
        "spark-mllib*",
        "spark-graphx*",
        "breeze*",
        "spire*",
        "algebra_*",
        "cats-kernel*",
        "JTransforms*",
        "JLargeArrays*",
    ),
    *("arpack*", "blas-*", "lapack*"),  # for machine learning, as those above
    *(
        "hive-*",
        "datanucleus*",
        "derby*",
        "spark-hive*",
        "HikariCP*",
        "antlr-runtime*",
        "libfb303*",
        "ST4*",
        "jdo-api*",
        "javax.jdo*",
    ),
    *("rocksdbjni*", "spark-streaming*", "spark-connect*", "connect-repl/*", "spark-pipelines*"),
    *("scala-compiler*", "spark-repl*", "jline-*"),  # Spark's shell
    *("zookeeper*", "curator-*"),  # for masters of Spark's own cluster
)
# Files of wheels that are left out: tests, headers and sources, and the parts of Arrow for Flight and for stores in a cloud.
WHEELS_WITHOUT: Final = (
    *("bin/*", "*/tests/*", "*/_tests/*", "*.pyx", "*.pxd", "*.pxi", "pyarrow/include/*", "pyarrow/includes/*", "pyarrow/src/*", "numpy/*/include/*"),
    *("pyarrow/*flight*", "pyarrow/*_s3*", "pyarrow/_gcsfs*", "pyarrow/_azurefs*", "pyarrow/_hdfs*", "pyarrow/_pyarrow_cpp_tests*"),
    *("pyspark/examples/*", "pyspark/data/*", "pyspark/sbin/*", "*/lib/*.a", "numpy/f2py/*", "numpy/distutils/*"),
    *(f"pyspark/jars/{name}" for name in SPARK_WITHOUT),
)  # fmt: skip


@dataclass(frozen=True)
class Definition:
    """One image.

    Attributes:
        name: in manifests and file names.
        title: what it is, for its labels.
        extras: of pyproject.toml.
        sources: folders of the repository with its code.
        packages: of Debian, besides `BASE_PACKAGES`.
        links: path → target of further symbolic links; ``{arch}`` is Debian's name of the architecture.
        environment: of its processes.
        entrypoint, command: that its containers run.
        jmx: whether it has the JMX exporter.
    """

    name: str
    title: str
    extras: tuple[str, ...]
    sources: tuple[str, ...]
    packages: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    environment: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    jmx: bool = False


_ENVIRONMENT: Final = (f"PATH=/{VENV}/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED=1")
SPINDLE: Final = Definition(
    name="spindle",
    title="Spindle's operator, agent, preflight and command line",
    extras=("operator", "agent", "cli"),
    sources=("core", "shared", "operator", "agent", "cli"),
    environment=_ENVIRONMENT,
    command=("spindle-operator",),
    jmx=True,
)
# Its executors have the same image; Spark starts them with the argument "executor".
REBALANCE: Final = Definition(
    name="spindle-rebalance",
    title="Spindle's rebalance job",
    extras=("rebalance",),
    sources=("core", "shared", "operator", "agent", "rebalance", "cli"),
    packages=("openjdk-17-jre-headless",),
    links=(("usr/bin/java", "/usr/lib/jvm/java-17-openjdk-{arch}/bin/java"),),
    environment=(*_ENVIRONMENT, f"PYSPARK_PYTHON=/{VENV}/bin/python"),
    entrypoint=("spindle-rebalance",),
    command=("--help",),
)
DEFINITIONS: Final = {each.name: each for each in (SPINDLE, REBALANCE)}
