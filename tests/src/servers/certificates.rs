//! Certificates of a server, and of the authority that signs them.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use super::process::folder;

/// An authority that nobody knows, and what it has signed for servers of this machine, in files.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// New ones.
    ///
    /// # Panics
    /// When they cannot be made.
    #[must_use]
    pub fn signed() -> Self {
        let key = || KeyPair::generate().expect("a key");
        let params = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            CertificateParams::new(names).expect("names")
        };
        let (mut authority, authority_key) = (params(&[]), key());
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let known = authority.self_signed(&authority_key).expect("the authority's certificate");
        let (server, server_key) = (params(&["localhost", "127.0.0.1"]), key());
        let signed = server.signed_by(&server_key, &Issuer::new(authority, authority_key)).expect("a certificate");
        let certificates = Self { folder: folder("certificates") };
        let owner = std::fs::metadata(certificates.folder.path()).expect("a folder");
        for (name, text) in
            [("ca.pem", known.pem()), ("server.pem", signed.pem()), ("server.key", server_key.serialize_pem())]
        {
            let file = certificates.file(name);
            std::fs::write(&file, text).expect("a file");
            // PostgreSQL takes no key that others may read.
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("our own file");
            chown(&file, Some(owner.uid()), Some(owner.gid())).expect("root can give a file away");
        }
        certificates
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file of the authority's certificate.
    #[must_use]
    pub fn authority(&self) -> String {
        self.file("ca.pem").display().to_string()
    }

    /// The file of the server's certificate.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.file("server.pem").display().to_string()
    }

    /// The file of the server's key.
    #[must_use]
    pub fn key(&self) -> String {
        self.file("server.key").display().to_string()
    }
}
