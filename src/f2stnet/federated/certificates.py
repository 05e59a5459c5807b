"""Who is who on the wire: the coordinator's certificate authority, its server certificate, the clients' node keys.

The authority is the coordinator's own: its `ca.crt` goes to every operator, who trusts nothing else for this
connection. A node key is made by the operator and never leaves the operator's machine; only its public half does.
"""

import ipaddress
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from f2stnet.errors import InputError
from f2stnet.files import existing, write_text

AUTHORITY_DAYS, SERVER_DAYS = 3650, 397
RENEW_BEFORE = timedelta(days=30)
ANEW = "make new ones in another folder with `f2stnet coordinator init`, and send its ca.crt to every operator"
LOOPBACK = ("localhost", "127.0.0.1", "::1")  # the coordinator's own commands come from there


@dataclass(frozen=True)
class Certificates:
    """The files a SuperLink needs; operators need `ca` alone."""

    ca: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path, hosts: Iterable[str]) -> Certificates:
    """`folder` with ca.crt, ca.key, server.crt and server.key, for a SuperLink that is reached by these `hosts`.

    An authority that is there already is kept, so that the operators' copies of ca.crt stay right. A server
    certificate that is there is kept too, unless it lacks one of the hosts or has less than 30 days to go.
    """
    names = [_name(host) for host in dict.fromkeys([*hosts, *LOOPBACK])]
    files = Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    authority_key = folder / "ca.key"
    folder.mkdir(parents=True, exist_ok=True)
    if files.ca.exists() != authority_key.exists():
        there, lacking = sorted((files.ca, authority_key), key=Path.exists, reverse=True)
        raise InputError(f"{folder}: has {there.name} without {lacking.name}; give both or an empty folder")
    if not authority_key.exists():
        _make_authority(files.ca, authority_key)
    authority = _private_key(authority_key)
    check_certificate(files.ca, ANEW)
    if authority.public_key() != _certificate(files.ca).public_key():
        raise InputError(f"{authority_key}: not the key of {files.ca.name}; {ANEW}")
    if not _serves(files, names):
        files.key.unlink(missing_ok=True)
        _issue(files, names, authority)
    return files


def find_certificates(folder: Path) -> Certificates:
    """What `make_certificates` put into `folder`, if it is all there, belongs together and is still valid."""
    files = Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    if not files.ca.exists():
        raise InputError(f"{folder}: has no ca.crt; make certificates with `f2stnet coordinator init`")
    check_certificate(files.ca, ANEW)
    renew = f"renew it with `f2stnet coordinator init{_host_words(files.certificate)} --out {folder}`"
    check_certificate(files.certificate, renew)
    if not _signed(files):
        raise InputError(f"{files.certificate}: not signed by {files.ca}; {renew}")
    if not _belongs(files):
        raise InputError(f"{files.key}: not the key of {files.certificate.name}; {renew}")
    if (folder / "ca.key").exists():  # it may be kept elsewhere
        check_private(folder / "ca.key")
    return files


def make_node_key(private: Path, public: Path) -> None:
    """A key pair for node authentication, in the form that Flower reads."""
    key = ec.generate_private_key(ec.SECP384R1())
    encoding, form = serialization.Encoding, serialization.PrivateFormat.OpenSSH
    write_private(private, key.private_bytes(encoding.PEM, form, serialization.NoEncryption()))
    text = key.public_key().public_bytes(encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    write_text(public, text.decode("ascii") + "\n")


def check_public_key(path: Path) -> Path:
    """`path` if it holds the public half of a node key. A private key sent by mistake is named as such."""
    content = existing(path).read_bytes()
    if b"PRIVATE KEY" in content:
        raise InputError(f"{path}: a private key, which must stay with its owner; expected the file ending in .pub")
    try:
        key = serialization.load_ssh_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(f"{path}: not a public key; expected the .pub file that `f2stnet client init` made") from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise InputError(f"{path}: not an elliptic curve key; expected the .pub file that `f2stnet client init` made")
    return path


def check_certificate(path: Path, remedy: str = "ask the coordinator for a new one") -> Path:
    """`path` if it holds a certificate that is still valid."""
    certificate = _certificate(path)
    if certificate.not_valid_after_utc < datetime.now(UTC):
        raise InputError(f"{path}: expired on {certificate.not_valid_after_utc:%Y-%m-%d}; {remedy}")
    return path


def check_private(path: Path) -> Path:
    """`path` if nobody but its owner may read it."""
    mode = existing(path).stat().st_mode & 0o777
    if mode & 0o077 and os.name == "posix":  # elsewhere modes say nothing of who may read
        raise InputError(f"{path}: mode {mode:o}, others can read it; expected 600 (chmod 600 {path})")
    return path


def write_private(path: Path, content: bytes) -> None:
    """A file that only its owner may read, from its first byte on; one that exists is not replaced."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"{path}: exists already; a private key is not replaced") from None
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _make_authority(certificate: Path, private: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject("f2stnet coordinator")
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(AUTHORITY_DAYS)
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    _write_key(private, key)
    _write_certificate(certificate, builder.sign(key, hashes.SHA256()))


def _issue(files: Certificates, names: list[x509.GeneralName], authority: ec.EllipticCurvePrivateKey) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    signer = authority.public_key()
    builder = (
        _builder(SERVER_DAYS)
        .subject_name(_subject("f2stnet SuperLink"))
        .issuer_name(_certificate(files.ca).subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )
    _write_key(files.key, key)
    _write_certificate(files.certificate, builder.sign(authority, hashes.SHA256()))


def _serves(files: Certificates, names: list[x509.GeneralName]) -> bool:
    """Whether the server certificate that is there will do."""
    if not (files.certificate.exists() and files.key.exists()):
        return False
    certificate = _certificate(files.certificate)
    if certificate.not_valid_after_utc - datetime.now(UTC) < RENEW_BEFORE or not (_signed(files) and _belongs(files)):
        return False
    return set(names) <= set(_held(certificate))


def _signed(files: Certificates) -> bool:
    """Whether the server certificate is one by this authority."""
    try:
        _certificate(files.certificate).verify_directly_issued_by(_certificate(files.ca))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _belongs(files: Certificates) -> bool:
    return _any_key(files.key).public_key() == _certificate(files.certificate).public_key()


def _held(certificate: x509.Certificate) -> list[x509.GeneralName]:
    try:
        return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _host_words(path: Path) -> str:
    """The hosts of a certificate as options, to have it renewed for the same."""
    hosts = [str(name.value) for name in _held(_certificate(path))]
    return "".join(f" --host {host}" for host in hosts if host not in LOOPBACK) or " --host localhost"


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", host):
        raise InputError(f"host {host!r}: expected a name or an IP address, without a port")
    return x509.DNSName(host.lower())


def _builder(days: int) -> x509.CertificateBuilder:
    begin = datetime.now(UTC) - timedelta(minutes=10)  # operators' clocks may be a little behind
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])


def _usage(**granted: bool) -> x509.KeyUsage:
    every = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: granted.get(name, False) for name in every})


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    form = serialization.PrivateFormat.PKCS8
    write_private(path, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    write_text(path, certificate.public_bytes(serialization.Encoding.PEM).decode("ascii"))


def _certificate(path: Path) -> x509.Certificate:
    content = existing(path).read_bytes()
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError:
        raise InputError(f"{path}: not a certificate in PEM form") from None


def _any_key(path: Path) -> PrivateKeyTypes:
    content = check_private(path).read_bytes()
    try:
        return serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError(f"{path}: not a private key in PEM form without a password") from None


def _private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = _any_key(path)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{path}: not an elliptic curve key, as `make_certificates` writes")
    return key
