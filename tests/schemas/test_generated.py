"""What is generated from the .proto files is what is committed."""

from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from schemas.generate import PACKAGE, compile_into, proto_files
from schemas.reference import PAGE, page
from schemas.topics import CATALOGUE


def test_classes_are_up_to_date(tmp_path: Path) -> None:
    compile_into(tmp_path)
    for proto in proto_files():
        loader = f"{proto.stem}_pb2.py"
        fresh = (tmp_path / "schemas" / loader).read_text()
        assert (PACKAGE / loader).read_text() == fresh, "run `make schemas`"
    fresh = FileDescriptorSet.FromString((tmp_path / "schemas" / "descriptors.binpb").read_bytes())
    committed = FileDescriptorSet.FromString((PACKAGE / "descriptors.binpb").read_bytes())
    assert committed == fresh, "run `make schemas`"


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m schemas.reference`"


def test_the_reference_names_every_topic_message_and_enum() -> None:
    text = PAGE.read_text()
    described = FileDescriptorSet.FromString((PACKAGE / "descriptors.binpb").read_bytes())
    for file in described.file:
        for declared in [*file.message_type, *file.enum_type]:
            assert f"### {declared.name}\n" in text
    assert all(f"| `{topic.name}` |" in text for topic in CATALOGUE)
