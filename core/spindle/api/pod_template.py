"""The parts of the pods of a pool, of the controllers and of the rebalance job that users add."""

from typing import Annotated, Any, Final

from pydantic import Field

from spindle.api.common import (
    ApiModel,
    Name,
    ShortText,
    Toleration,
    atomic,
    hint,
    list_map,
    longest,
)

# Kubernetes' own types, as the API server of the pods checks them: their schemas would be larger than all other resources together.
_DEEP: Final = {"x-kubernetes-preserve-unknown-fields": True}
Deep = Annotated[dict[str, Any], Field(json_schema_extra=_DEEP)]
# An entry of a list that has a name; the rest is Kubernetes' own.
Named = Annotated[
    dict[str, Any],
    Field(
        json_schema_extra={
            **_DEEP,
            "properties": {"name": {"description": "Name of the entry.", "type": "string", "maxLength": 63}},
            "required": ["name"],
        }
    ),
]
_MOST: Final = 32


class TemplateMetadata(ApiModel):
    """Labels and annotations."""

    labels: dict[str, ShortText] = Field(
        default_factory=dict,
        description="Labels, in addition to Spindle's.",
        json_schema_extra={"maxProperties": _MOST},
    )
    annotations: dict[str, Annotated[str, Field(json_schema_extra=longest(4096))]] = Field(
        default_factory=dict,
        description="Annotations, in addition to Spindle's.",
        json_schema_extra={"maxProperties": _MOST},
    )


class TemplateSpec(ApiModel):
    """Parts of a pod's spec, as Kubernetes defines them."""

    affinity: Deep | None = Field(
        None,
        description="Affinity, in addition to Spindle's: each required node term of it has to match together with Spindle's.",
    )
    topology_spread_constraints: list[Deep] = Field(
        default_factory=list, description="Topology spread constraints.", json_schema_extra=atomic(most=8)
    )
    tolerations: list[Toleration] = Field(
        default_factory=list,
        description="Tolerations, in addition to those of spec.scheduling.",
        json_schema_extra=atomic(most=_MOST),
    )
    node_selector: dict[str, ShortText] = Field(
        default_factory=dict,
        description="Labels that the node must have, in addition to those of spec.scheduling.",
        json_schema_extra={"maxProperties": _MOST},
    )
    priority_class_name: Name | None = Field(
        None, description="PriorityClass, in place of that of spec.scheduling."
    )
    runtime_class_name: Name | None = Field(None, description="RuntimeClass of the pod.")
    scheduler_name: Name | None = Field(None, description="Scheduler that places the pod.")
    security_context: Deep | None = Field(
        None,
        description="Settings of the pod's security context that do not weaken it: supplementalGroups, fsGroupChangePolicy, seLinuxOptions, "
        "appArmorProfile, seccompProfile and safe sysctls.",
    )
    termination_grace_period_seconds: int | None = Field(
        None,
        description="Seconds that the pod may take to stop, at least: Spindle gives a broker more if it has many replicas.",
        ge=1,
        le=86400,
        json_schema_extra=hint(
            "terminationGracePeriodSeconds is between 1 second and a day (86400): write for example 600"
        ),
    )
    volumes: list[Named] = Field(
        default_factory=list,
        description="Further volumes. Secrets and claims need the label spindle.dev/usable-by.",
        json_schema_extra=list_map("name", most=16),
    )
    init_containers: list[Named] = Field(
        default_factory=list,
        description="Further init containers; they run after Spindle's, before Kafka.",
        json_schema_extra=list_map("name", most=8),
    )
    containers: list[Named] = Field(
        default_factory=list,
        description="Sidecars, and, under the name of Spindle's own container (kafka, or rebalance for the job), its additional env, envFrom and "
        "volumeMounts.",
        json_schema_extra=list_map("name", most=8),
    )


class PodTemplate(ApiModel):
    """What is added to pods."""

    metadata: TemplateMetadata = Field(
        default_factory=TemplateMetadata, description="Labels and annotations of the pods."
    )
    spec: TemplateSpec = Field(default_factory=TemplateSpec, description="Additions to the pods' spec.")

    def parts(self) -> dict[str, Any]:
        """What the template sets, as in the API, without empty parts: ``{"labels": …, "annotations": …, "spec": …}``; empty if it sets nothing."""
        spec = self.spec.to_dict()
        found = {
            "labels": dict(self.metadata.labels),
            "annotations": dict(self.metadata.annotations),
            "spec": {key: value for key, value in spec.items() if value not in ({}, [])},
        }
        return {key: value for key, value in found.items() if value}


def parts_of(template: PodTemplate | None) -> dict[str, Any]:
    """`PodTemplate.parts`; empty for none."""
    return {} if template is None else template.parts()
