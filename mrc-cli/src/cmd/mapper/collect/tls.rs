//! Mutual TLS between agents and collector: TLS 1.3, one authority per fabric, a certificate for everybody.
//!
//! The collector's certificate has the name [`COLLECTOR`]; an agent's has the name of its host, and is good for no other
//! host. Both are checked by the other side before anything is told.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use mrc_mapper::topology::{HostId, host_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, version::TLS13};

use crate::usage::usage;

/// The name in a collector's certificate.
pub const COLLECTOR: &str = "mrc-collector";

/// Where the certificates are.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Certificates {
    /// Folder with ca.pem (the fabric's authority), cert.pem and key.pem: mutual TLS. Needed wherever agents and collector
    /// are on different machines
    #[arg(long, value_name = "FOLDER")]
    tls: Option<PathBuf>,
}

/// What both sides read.
struct Files {
    roots: RootCertStore,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = || -> anyhow::Result<Vec<CertificateDer<'static>>> {
        let all = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
        anyhow::ensure!(!all.is_empty(), "no `BEGIN CERTIFICATE` in it");
        Ok(all)
    };
    read().with_context(|| format!("cannot read a certificate from {}", path.display()))
}

/// Whether nobody but its owner opens a file of this mode. Secrets of containers and credentials of systemd are root's, and a group
/// of their own may read them.
fn is_closed(mode: u32, owner: u32) -> bool {
    let others = if owner == 0 { 0o037 } else { 0o077 };
    mode & others == 0
}

impl Files {
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        let authority = folder.join("ca.pem");
        for certificate in certificates(&authority)? {
            roots.add(certificate).with_context(|| format!("{} holds no authority", authority.display()))?;
        }
        let key = folder.join("key.pem");
        let about = std::fs::metadata(&key).with_context(|| format!("cannot read {}", key.display()))?;
        anyhow::ensure!(is_closed(about.mode(), about.uid()), "{} can be read by others: chmod 600 it", key.display());
        let chain = certificates(&folder.join("cert.pem"))?;
        let read = PrivateKeyDer::from_pem_file(&key);
        let key = read.with_context(|| format!("cannot read a private key from {}", key.display()))?;
        Ok(Self { roots, chain, key })
    }
}

impl Certificates {
    /// Whether certificates are given.
    pub fn is_set(&self) -> bool {
        self.tls.is_some()
    }

    /// The collector's side.
    ///
    /// # Errors
    /// The file, and what is wrong with it.
    pub fn server(&self) -> anyhow::Result<Option<Arc<ServerConfig>>> {
        let Some(folder) = &self.tls else { return Ok(None) };
        let files = Files::read(folder).map_err(usage)?;
        let agents = WebPkiClientVerifier::builder_with_provider(Arc::new(files.roots), provider()).build()?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(agents)
            .with_single_cert(files.chain, files.key)
            .with_context(|| format!("cert.pem and key.pem of {} do not belong together", folder.display()))
            .map_err(usage)?;
        Ok(Some(Arc::new(config)))
    }

    /// An agent's side.
    ///
    /// # Errors
    /// The file, and what is wrong with it.
    pub fn client(&self) -> anyhow::Result<Option<Arc<ClientConfig>>> {
        let Some(folder) = &self.tls else { return Ok(None) };
        let files = Files::read(folder).map_err(usage)?;
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(files.roots)
            .with_client_auth_cert(files.chain, files.key)
            .with_context(|| format!("cert.pem and key.pem of {} do not belong together", folder.display()))
            .map_err(usage)?;
        Ok(Some(Arc::new(config)))
    }
}

/// A connection of an agent that expects a collector at the other end.
///
/// # Errors
/// None that a valid configuration can cause.
pub fn connect(config: &Arc<ClientConfig>) -> std::io::Result<ClientConnection> {
    let name = ServerName::try_from(COLLECTOR).map_err(std::io::Error::other)?;
    ClientConnection::new(Arc::clone(config), name).map_err(std::io::Error::other)
}

/// Whether the other end's certificate has the name of this host.
pub fn may_speak_for(connection: &ServerConnection, host: HostId) -> bool {
    let certificate = connection.peer_certificates().and_then(|chain| chain.first());
    let name = ServerName::try_from(host_name(host));
    match (certificate.map(webpki::EndEntityCert::try_from), name) {
        (Some(Ok(certificate)), Ok(name)) => certificate.verify_is_valid_for_subject_name(&name).is_ok(),
        _ => false,
    }
}

/// What went wrong, with what to do about it.
pub fn explained(error: &rustls::Error) -> String {
    use rustls::{AlertDescription as Alert, CertificateError as Wrong, Error};
    let cure = match error {
        Error::InvalidCertificate(Wrong::Expired | Wrong::ExpiredContext { .. }) => "its certificate expired: renew it",
        Error::InvalidCertificate(Wrong::UnknownIssuer | Wrong::BadSignature) => {
            "its certificate is of another authority: both ends need the same ca.pem"
        }
        Error::InvalidCertificate(Wrong::NotValidForName | Wrong::NotValidForNameContext { .. }) => {
            "its certificate has another name: a collector's is mrc-collector"
        }
        Error::NoCertificatesPresented => "it showed no certificate: give the agent --tls",
        Error::AlertReceived(Alert::CertificateExpired) => "the other end says that our cert.pem expired: renew it",
        Error::AlertReceived(Alert::UnknownCA | Alert::DecryptError | Alert::BadCertificate) => {
            "the other end does not know the authority of our cert.pem: both ends need the same ca.pem"
        }
        Error::InvalidMessage(_) => "it does not speak TLS: give both ends --tls, or neither",
        _ => return format!("TLS: {error}"),
    };
    format!("TLS: {cure} ({error})")
}

#[cfg(test)]
mod tests;
