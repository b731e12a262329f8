//! An open location in an object store.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig};
use tokio::runtime::Handle;

use crate::connector::Connector;
use crate::download::Download;
use crate::place::{BucketPlace, Scheme};
use crate::unfinished::{Note, Owner, file_of};
use crate::upload::Upload;
use crate::{ObjectFault, RETRIES, RETRY_TIME, STALL_TIME};

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name, without the location's prefix.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was last written (Unix, milliseconds).
    pub modified_unix_ms: i64,
}

/// One store, for files and for parts of files.
#[derive(Clone)]
pub(crate) struct Stores {
    pub whole: Arc<dyn ObjectStore>,
    pub parts: Arc<dyn MultipartStore>,
}

impl Stores {
    fn of<S: ObjectStore + MultipartStore>(store: S) -> Stores {
        let store = Arc::new(store);
        Stores { whole: store.clone(), parts: store }
    }
}

/// An open location: lists, reads and writes objects. Clones share the connection.
#[derive(Clone)]
pub struct ObjectBucket {
    stores: Stores,
    place: BucketPlace,
    runtime: Handle,
}

impl ObjectBucket {
    /// Opens a location without any request. Requests run on `runtime`.
    ///
    /// # Errors
    /// The environment's credentials cannot be read.
    pub fn open(place: &BucketPlace, runtime: Handle) -> Result<ObjectBucket, ObjectFault> {
        let stores = match place.scheme {
            Scheme::S3 => s3(&place.bucket)?,
            Scheme::Gcs => gcs(&place.bucket)?,
            Scheme::Azure => azure(&place.bucket)?,
        };
        Ok(ObjectBucket { stores, place: place.clone(), runtime })
    }

    /// The location.
    pub fn place(&self) -> &BucketPlace {
        &self.place
    }

    /// The files at the location, not those in locations below it, newest last.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn list(&self) -> Result<Vec<StoredFile>, ObjectFault> {
        let (store, prefix) = (Arc::clone(&self.stores.whole), self.path_of(""));
        let listed = self.wait(async move {
            let at = (!prefix.as_ref().is_empty()).then_some(&prefix);
            Ok(store.list_with_delimiter(at).await?.objects)
        })?;
        let stored = |meta: object_store::ObjectMeta| {
            let name = meta.location.filename()?.to_owned();
            let modified_unix_ms = meta.last_modified.timestamp_millis();
            Some(StoredFile { name, bytes: meta.size, modified_unix_ms })
        };
        let mut found: Vec<StoredFile> = listed.into_iter().filter_map(stored).collect();
        found.sort_by(|a, b| (a.modified_unix_ms, &a.name).cmp(&(b.modified_unix_ms, &b.name)));
        Ok(found)
    }

    /// Starts to write a file; a file with that name is replaced when it is finished.
    pub fn upload(&self, name: &str) -> Upload {
        Upload::begin(self.stores.clone(), self.path_of(name), &self.runtime)
    }

    /// Starts to read a file.
    ///
    /// # Errors
    /// Those of the storage; the file does not exist.
    pub fn download(&self, name: &str) -> Result<Download, ObjectFault> {
        let (store, path) = (Arc::clone(&self.stores.whole), self.path_of(name));
        let size = self.wait({
            let (store, path) = (Arc::clone(&store), path.clone());
            async move { Ok(store.head(&path).await?.size) }
        })?;
        Ok(Download::begin(store, path, size, &self.runtime))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn remove(&self, name: &str) -> Result<(), ObjectFault> {
        let (store, path) = (Arc::clone(&self.stores.whole), self.path_of(name));
        self.wait(async move { store.delete(&path).await })
    }

    /// Aborts uploads to this location whose server was killed; `may_live` tells which processes of
    /// this host may still write. Returns the names of their files.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn give_up_unfinished(
        &self,
        now_unix_ms: i64,
        may_live: &dyn Fn(u32) -> bool,
    ) -> Result<Vec<String>, ObjectFault> {
        let here = Owner::here();
        let mut given_up = Vec::new();
        for stored in self.list()? {
            let Some(file) = file_of(&stored.name) else { continue };
            let (store, path) = (Arc::clone(&self.stores.whole), self.path_of(&stored.name));
            let text = self.wait(async move { store.get(&path).await?.bytes().await })?;
            let age_ms = u64::try_from(now_unix_ms - stored.modified_unix_ms).unwrap_or(0);
            let age = Duration::from_millis(age_ms);
            let note = Note::parse(&text).filter(|note| note.is_left(&here, age, may_live));
            let Some(note) = note else { continue };
            let (parts, path) = (Arc::clone(&self.stores.parts), self.path_of(file));
            let ended =
                self.wait(async move { Ok(parts.abort_multipart(&path, &note.id).await) })?;
            // An upload that has ended is as good.
            if let Err(error) = ended.or_else(is_gone) {
                return Err(error.into());
            }
            self.remove(&stored.name)?;
            given_up.push(file.to_owned());
        }
        Ok(given_up)
    }

    fn path_of(&self, name: &str) -> Path {
        let parts = self.place.prefix.split('/').chain([name]);
        Path::from_iter(parts.filter(|part| !part.is_empty()))
    }

    /// Runs a future on the runtime and waits for it.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, object_store::Error>> + Send + 'static,
    ) -> Result<T, ObjectFault> {
        let (done, until_done) = sync_channel(1);
        self.runtime.spawn(async move {
            // Nobody waits any more.
            let _gone = done.send(work.await);
        });
        until_done
            .recv()
            .map_err(|_| ObjectFault("the control plane has ended".into()))?
            .map_err(ObjectFault::from)
    }
}

fn is_gone(error: object_store::Error) -> Result<(), object_store::Error> {
    match error {
        object_store::Error::NotFound { .. } => Ok(()),
        error => Err(error),
    }
}

fn retrying() -> RetryConfig {
    let backoff =
        BackoffConfig { max_backoff: Duration::from_secs(10), ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_TIME }
}

/// `may_be_plain`: the environment names an endpoint of its own, such as an emulator's.
fn client(may_be_plain: bool) -> ClientOptions {
    ClientOptions::new()
        .with_timeout(STALL_TIME)
        .with_connect_timeout(STALL_TIME)
        .with_allow_http(may_be_plain)
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn s3(bucket: &str) -> Result<Stores, ObjectFault> {
    let may_be_plain = is_set("AWS_ALLOW_HTTP");
    let builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retrying())
        .with_http_connector(Connector)
        .with_client_options(client(may_be_plain));
    Ok(Stores::of(builder.build()?))
}

fn gcs(bucket: &str) -> Result<Stores, ObjectFault> {
    let builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retrying())
        .with_http_connector(Connector)
        .with_client_options(client(names_gcs_endpoint()));
    Ok(Stores::of(builder.build()?))
}

/// Whether the environment names an endpoint other than Google's: directly, or inside a service
/// account's key, where emulators have it.
fn names_gcs_endpoint() -> bool {
    let key = std::env::var("GOOGLE_SERVICE_ACCOUNT_KEY").unwrap_or_default();
    is_set("GOOGLE_BASE_URL") || key.contains("gcs_base_url")
}

fn azure(container: &str) -> Result<Stores, ObjectFault> {
    let builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(container)
        .with_retry(retrying())
        .with_http_connector(Connector)
        .with_client_options(client(is_set("AZURE_STORAGE_USE_EMULATOR")));
    Ok(Stores::of(builder.build()?))
}
