"""The CycloneDX document of an image. The same image gives the same file, byte for byte."""

import uuid
from collections.abc import Iterable, Iterator
from typing import Final

import cyclonedx
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.component_evidence import ComponentEvidence, Occurrence
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from tools.sbom.layers import Image
from tools.sbom.parts import Part

_TYPES: Final = {"os": ComponentType.OPERATING_SYSTEM, "program": ComponentType.APPLICATION}
_NAMESPACE: Final = uuid.UUID(
    "5d4cf1a3-7e0b-5a66-9a51-0d2f8f0c6a11"
)  # namespace of the serial numbers, chosen once


class DocumentError(ValueError):
    """The output is not a valid CycloneDX document."""


def write(name: str, version: str, image: Image, parts: Iterable[Part]) -> str:
    """The document as JSON.

    Args:
        name, version: the image's name and tag.
        image: the image in which the parts were found.
        parts: contents of the image.

    Raises:
        DocumentError: the result does not match the CycloneDX schema.
    """
    listed = list(parts)
    system = next((part for part in listed if part.kind == "os"), None)
    root = Component(
        type=ComponentType.CONTAINER,
        name=name,
        version=version,
        bom_ref=f"sha256:{image.digest}",
        properties=[Property(name="spindle:image:config", value=f"sha256:{image.digest}")],
    )
    components = [_component(part, system) for part in listed]
    # Creation time of the image, not of this run, so that the document is reproducible.
    metadata = BomMetaData(
        component=root,
        timestamp=image.created,
        tools=ToolRepository(
            components=[
                Component(
                    type=ComponentType.LIBRARY, name="cyclonedx-python-lib", version=cyclonedx.__version__
                )
            ]
        ),
    )
    serial = uuid.uuid5(_NAMESPACE, "\n".join((name, version, image.digest, *(str(part) for part in listed))))
    bom = Bom(serial_number=serial, metadata=metadata, components=components)
    bom.register_dependency(root, components)
    text = JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
    if (error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise DocumentError(f"not a valid CycloneDX 1.6 document: {error.data}")
    return text


def _component(part: Part, system: Part | None) -> Component:
    return Component(
        type=_TYPES.get(part.kind, ComponentType.LIBRARY),
        name=part.name,
        group=part.group or None,
        version=part.version or None,
        bom_ref=f"{part.kind}:{part.location}:{part.name}:{part.architecture}",
        purl=_purl(part, system),
        hashes=[HashType(alg=HashAlgorithm(name), content=value) for name, value in part.hashes],
        properties=list(_properties(part)),
        evidence=ComponentEvidence(occurrences=[Occurrence(location=f"/{part.location}")]),
        components=[_component(each, system) for each in part.parts],
    )


def _properties(part: Part) -> Iterator[Property]:
    if part.record:
        yield Property(name="spindle:python:record-sha256", value=part.record)


def _purl(part: Part, system: Part | None) -> PackageURL | None:
    """Package URL under which vulnerability databases know the part; None where it is not certain."""
    match part.kind:
        case "deb":
            vendor = system.name if system is not None else "debian"
            more = {"arch": part.architecture, "upstream": part.source}
            if system is not None and system.version:
                more["distro"] = f"{vendor}-{system.version}"
            given = {key: value for key, value in more.items() if value}
            return PackageURL("deb", vendor, part.name, part.version, given)
        case "python":
            return PackageURL("pypi", None, part.name, part.version or None)
        case "jar" if part.group:
            return PackageURL("maven", part.group, part.name, part.version or None)
        case _:
            return None
