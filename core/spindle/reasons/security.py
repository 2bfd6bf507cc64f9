"""Reasons about certificates, rights and users."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Certificates",
        "[Security](../security.md) describes the certificates and their renewal.",
        (
            Reason(
                "CaCreated",
                "the certificate authority was created, or taken from the Secret that the spec names",
            ),
            Reason(
                "CaAnnounced",
                "a new certificate authority was created, and all nodes, users and agents have to trust it first",
            ),
            Reason(
                "CaSwitched", "the new certificate authority signs from now on; the old one is still trusted"
            ),
            Reason("CaRetired", "the old certificate authority is no longer trusted"),
            Reason(
                "CaReplaced",
                "the certificate authority [is being replaced](../security.md#renewal-and-replacement-of-the-authority)",
                "nothing: the message says what it waits for",
                "none",
            ),
            Reason(
                "CaSecretInvalid",
                "the certificate authority in the Secret that `spec.security.caSecret` names cannot be used; the one in use continues",
                "[do what the message says](../security.md#an-authority-of-your-own)",
                "ticket",
            ),
            Reason(
                "CaMissing",
                "the Secret of the certificate authority is gone or cannot be read, so no certificate can be issued or renewed",
                "restore it from a backup ([whose is what](../security.md#whose-is-what)), or renew all",
                "ticket",
            ),
            Reason(
                "CaMismatch",
                "the Secret of the certificate authority was restored from an older backup. Running nodes do not trust that authority, so Spindle issues nothing",
                "restore the latest Secret; if it is lost, delete all pods of the cluster at once",
                "ticket",
            ),
            Reason("CertificateIssued", "the certificate of a node or user was issued or renewed"),
            Reason(
                "CertificateRenewed",
                "a broker or controller restarts because its certificate, or the authorities that it trusts, changed",
            ),
            Reason("AgentsCertified", "certificates of agents were issued or renewed"),
            Reason(
                "AgentCertificatesUnknown",
                "the certificates of the agents for this cluster cannot be read in their namespace. A KafkaCluster that is being deleted waits, so that none is left behind",
                "correct the operator's role in that namespace",
                "ticket",
            ),
            Reason("SecretUpdated", "the Secret of a user was written"),
            Reason(
                "UserCertificatesValidForServers",
                "KafkaUsers with names like hosts have certificates of an earlier version that are valid for servers: whoever holds one [can pose as that host](../security.md#kafka)",
                "wait until the day in the message, when the last one expires; to end it sooner, [replace the authority](../security.md#renewal-and-replacement-of-the-authority)",
                "ticket",
            ),
        ),
    ),
    Section(
        "Users and rights",
        "[Users](../users.md) describes credentials, ACLs and quotas of clients.",
        (
            Reason(
                "SpecApplied",
                "the KafkaUser has its Secret, its rights and its quotas; the topic of the KafkaTopic is as its spec says",
            ),
            Reason(
                "SecretPending",
                "the Secret of the KafkaUser is not written yet",
                "nothing: Spindle writes it",
                "none",
            ),
            Reason(
                "Changing",
                "rights, quotas or the password of the KafkaUser are being changed in Kafka",
                "nothing: it ends within seconds",
                "none",
            ),
            Reason(
                "NotPrivileged",
                "the KafkaUser has all but the [rights that reach far](../users.md#rights-that-reach-far), which no administrator allowed; the message names them",
                "have an administrator label the KafkaUser, as the message says, or remove these rights from `spec.acls`",
                "ticket",
            ),
            Reason("UserChanged", "ACLs, quotas or the password of a user were changed in Kafka"),
            Reason(
                "AdminGranted",
                "the administrator's user got its rights in Kafka, as ordinary ACLs that you can remove",
            ),
            Reason(
                "RebalanceGranted", "the user of the rebalance job got its rights in Kafka, as ordinary ACLs"
            ),
            Reason("AgentGranted", "the user of an agent got its rights in Kafka"),
            Reason(
                "AgentAccessRevoked",
                "the rights of an agent that is no longer needed were removed from Kafka",
            ),
            Reason(
                "UsersUnknown",
                "the KafkaUsers cannot be listed. Spindle does not replace the certificate authority, and a KafkaCluster that is being deleted waits, so that no user is left behind",
                "install the CRDs of the chart, and correct the operator's role",
                "ticket",
            ),
            Reason(
                "AllowedForCompatibility",
                "the spec asks for something that [reaches beyond Kafka](../security.md#what-a-kafkacluster-may-ask-for) and is not allowed, but it was in use before that was checked or before the list was narrowed. It continues, and cannot be set again once it is changed. A [key that Spindle owns](owned-config.md) and sets itself has no effect; the entry says so. Or KafkaUsers have [rights that reach far](../users.md#rights-that-reach-far) that nobody allowed",
                "remove it, or have it allowed; each KafkaUser says which rights",
                "ticket",
            ),
            Reason(
                "SpecNotAllowed",
                "the spec asks for something that [reaches beyond Kafka](../security.md#what-a-kafkacluster-may-ask-for) and that nobody allowed: an image, a JVM option, a class, a Secret, more disks together than the chart value `allow.disksPerCluster` permits (5,000), or more text than Spindle can record; or it sets a [key that Spindle owns](owned-config.md). Nothing of that spec is applied; Spindle manages the cluster by the previous one",
                "remove it, and use instead what the entry says; or have the owner of the Secret or claim label it; or have the administrator of Spindle widen `allow` in the values of the chart",
                "ticket",
            ),
        ),
    ),
)
