"""Certificates that Python's own TLS accepts for the hosts they name and for no others; keys that stay private."""

import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from f2stnet.cli import app
from f2stnet.errors import InputError
from f2stnet.federated import certificates
from f2stnet.federated.certificates import (
    Certificates,
    check_certificate,
    check_public_key,
    find_certificates,
    make_certificates,
    make_node_key,
    write_private,
)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def handshake(files: Certificates, ca: Path, name: str) -> None:
    """A TLS connection to a server with `files`, by a client that trusts `ca` alone and asks for `name`."""
    server, client = socket.socketpair()
    offered = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    offered.load_cert_chain(files.certificate, files.key)
    trusted = ssl.create_default_context(cafile=str(ca))
    trusted.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on

    def serve() -> None:
        try:
            offered.wrap_socket(server, server_side=True).close()
        except OSError:
            server.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        trusted.wrap_socket(client, server_hostname=name).close()
    finally:
        client.close()
        thread.join()


@pytest.mark.parametrize("name", ["superlink.example.org", "10.1.2.3", "2001:db8::7", "localhost", "127.0.0.1"])
def test_the_server_certificate_holds_for_its_hosts_and_for_loopback(tmp_path: Path, name: str) -> None:
    files = make_certificates(tmp_path, ["superlink.example.org", "10.1.2.3", "2001:db8::7"])
    handshake(files, files.ca, name)


def test_another_name_or_another_authority_is_refused(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "ours", ["superlink.example.org"])
    other = make_certificates(tmp_path / "theirs", ["superlink.example.org"])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(files, files.ca, "elsewhere.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(files, other.ca, "superlink.example.org")


def test_private_keys_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    files = make_certificates(tmp_path, ["localhost"])
    make_node_key(tmp_path / "north.key", tmp_path / "north.pub")
    assert [mode(path) for path in (files.key, tmp_path / "ca.key", tmp_path / "north.key")] == [0o600] * 3
    with pytest.raises(InputError, match="not replaced"):
        write_private(tmp_path / "north.key", b"other")


def test_made_again_nothing_changes_and_a_new_host_changes_the_server_certificate_alone(tmp_path: Path) -> None:
    files = make_certificates(tmp_path, ["a.example.org"])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    make_certificates(tmp_path, ["a.example.org"])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    make_certificates(tmp_path, ["b.example.org"])
    assert files.ca.read_bytes() == before["ca.crt"]
    assert files.certificate.read_bytes() != before["server.crt"]
    handshake(files, files.ca, "b.example.org")


def test_a_certificate_near_its_end_is_renewed_and_one_past_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "SERVER_DAYS", 29)
    files = make_certificates(tmp_path, ["a.example.org"])
    short = files.certificate.read_bytes()
    monkeypatch.setattr(certificates, "SERVER_DAYS", 397)
    make_certificates(tmp_path, ["a.example.org"])
    assert files.certificate.read_bytes() != short
    monkeypatch.setattr(certificates, "AUTHORITY_DAYS", 0)
    with pytest.raises(InputError, match=r"ca\.crt: expired on .*; make new ones in another folder"):
        make_certificates(tmp_path / "old", ["a.example.org"])
    with pytest.raises(InputError, match=r"expired on .*; ask the coordinator for a new one"):
        check_certificate(tmp_path / "old" / "ca.crt")


def test_an_expired_server_certificate_is_renewed_by_the_command_that_the_error_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "SERVER_DAYS", 0)
    make_certificates(tmp_path, ["a.example.org", "10.0.0.5"])
    monkeypatch.undo()
    with pytest.raises(InputError) as wrong:
        find_certificates(tmp_path)
    command = f"f2stnet coordinator init --host a.example.org --host 10.0.0.5 --out {tmp_path}"
    assert str(wrong.value).endswith(f"; renew it with `{command}`")
    ca = (tmp_path / "ca.crt").read_bytes()
    assert CliRunner().invoke(app, command.split()[1:]).exit_code == 0
    handshake(find_certificates(tmp_path), tmp_path / "ca.crt", "a.example.org")
    assert (tmp_path / "ca.crt").read_bytes() == ca


def test_files_of_different_authorities_are_refused_at_once_and_made_anew(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "ours", ["localhost"])
    other = make_certificates(tmp_path / "theirs", ["localhost"])
    files.certificate.write_bytes(other.certificate.read_bytes())
    with pytest.raises(
        InputError, match=r"server\.crt: not signed by .*ca\.crt; renew it with `f2stnet coordinator init"
    ):
        find_certificates(tmp_path / "ours")
    make_certificates(tmp_path / "ours", ["localhost"])
    handshake(find_certificates(tmp_path / "ours"), files.ca, "localhost")
    files.key.write_bytes(other.key.read_bytes())
    with pytest.raises(InputError, match=r"server\.key: not the key of server\.crt"):
        find_certificates(tmp_path / "ours")
    make_certificates(tmp_path / "ours", ["localhost"])
    handshake(find_certificates(tmp_path / "ours"), files.ca, "localhost")
    (tmp_path / "ours" / "ca.key").write_bytes((tmp_path / "theirs" / "ca.key").read_bytes())
    with pytest.raises(InputError, match=r"ca\.key: not the key of ca\.crt"):
        make_certificates(tmp_path / "ours", ["localhost"])


@pytest.mark.parametrize("name", ["server.key", "ca.key"])
def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path, name: str) -> None:
    make_certificates(tmp_path, ["localhost"])
    (tmp_path / name).chmod(0o644)
    with pytest.raises(InputError, match=rf"{name}: mode 644, others can read it; expected 600 \(chmod 600 "):
        find_certificates(tmp_path)
    with pytest.raises(InputError, match=rf"{name}: mode 644"):
        make_certificates(tmp_path, ["localhost"])


def test_node_keys_are_what_flower_reads(tmp_path: Path) -> None:
    make_node_key(tmp_path / "north.key", tmp_path / "north.pub")
    private = serialization.load_ssh_private_key((tmp_path / "north.key").read_bytes(), None)
    public = serialization.load_ssh_public_key((tmp_path / "north.pub").read_bytes())
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.curve.name == "secp384r1"
    assert private.public_key() == public
    assert check_public_key(tmp_path / "north.pub") == tmp_path / "north.pub"


def test_what_is_not_a_public_key_is_refused_by_name(tmp_path: Path) -> None:
    make_node_key(tmp_path / "north.key", tmp_path / "north.pub")
    with pytest.raises(InputError, match=r"north\.key: a private key, which must stay with its owner"):
        check_public_key(tmp_path / "north.key")
    (tmp_path / "text.pub").write_text("hello")
    with pytest.raises(InputError, match=r"text\.pub: not a public key"):
        check_public_key(tmp_path / "text.pub")


@pytest.mark.parametrize("host", ["host:8000", "https://host", "", "a b", "-x"])
def test_a_host_with_a_port_or_no_name_at_all_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(InputError, match="without a port"):
        make_certificates(tmp_path / "new", [host])
    assert not (tmp_path / "new").exists()


def test_half_an_authority_and_files_that_are_no_certificates_are_named(tmp_path: Path) -> None:
    files = make_certificates(tmp_path, ["localhost"])
    assert find_certificates(tmp_path) == files
    (tmp_path / "ca.key").unlink()
    with pytest.raises(InputError, match=r"has ca\.crt without ca\.key"):
        make_certificates(tmp_path, ["localhost"])
    files.certificate.write_text("nothing")
    with pytest.raises(InputError, match=r"server\.crt: not a certificate"):
        find_certificates(tmp_path)
    with pytest.raises(InputError, match="f2stnet coordinator init"):
        find_certificates(tmp_path / "elsewhere")
