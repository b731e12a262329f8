//! A location of files: `s3://bucket/prefix`, parsed from the setting `dir`.
//!
//! Tests: at the foot.

use std::fmt;

use crate::ObjectFault;

/// The kind of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Amazon S3 and compatible storage: `s3://`.
    S3,
    /// Google Cloud Storage: `gs://`.
    Gcs,
    /// Azure Blob Storage: `az://container/prefix`.
    Azure,
}

const SCHEMES: [(&str, Scheme); 3] =
    [("s3://", Scheme::S3), ("gs://", Scheme::Gcs), ("az://", Scheme::Azure)];

/// A bucket (container) and the prefix of our files in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlace {
    /// The kind of storage.
    pub scheme: Scheme,
    /// The bucket's name.
    pub bucket: String,
    /// Without slashes at its ends; may be empty.
    pub prefix: String,
}

impl BucketPlace {
    /// Whether a `dir` means object storage rather than a directory.
    pub fn is_meant_by(dir: &str) -> bool {
        SCHEMES.iter().any(|(word, _)| dir.starts_with(word))
    }

    /// Parses `s3://bucket/prefix`.
    ///
    /// # Errors
    /// Another scheme, no bucket, or an invalid name of a bucket.
    pub fn parse(dir: &str) -> Result<BucketPlace, ObjectFault> {
        let found =
            SCHEMES.iter().find_map(|(word, scheme)| Some((dir.strip_prefix(word)?, scheme)));
        let Some((rest, &scheme)) = found else {
            return Err(ObjectFault(format!("'{dir}' begins with none of s3://, gs://, az://")));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_plain) {
            return Err(ObjectFault(format!("'{dir}' names no bucket")));
        }
        let prefix = prefix.trim_matches('/');
        let is_odd = |part: &str| part.is_empty() || part == "." || part == "..";
        if !prefix.is_empty() && prefix.split('/').any(is_odd) {
            return Err(ObjectFault(format!("'{dir}' has an empty part, or one that is . or ..")));
        }
        Ok(BucketPlace { scheme, bucket: bucket.into(), prefix: prefix.into() })
    }
}

impl fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = SCHEMES.iter().find(|(_, scheme)| *scheme == self.scheme);
        let word = word.map_or("", |(word, _)| word);
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        write!(f, "{word}{}{slash}{}", self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dir: &str, expected: &str) {
        let told = match BucketPlace::parse(dir) {
            Ok(place) => format!("{place} = {:?} {} {}", place.scheme, place.bucket, place.prefix),
            Err(fault) => format!("no: {fault}"),
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn a_bucket_and_a_prefix() {
        check("s3://b", "s3://b = S3 b ");
        check("gs://my.bucket/", "gs://my.bucket = Gcs my.bucket ");
        check("az://c/a/b/", "az://c/a/b = Azure c a/b");
    }

    #[test]
    fn what_names_no_place() {
        check("/var/lib", "no: '/var/lib' begins with none of s3://, gs://, az://");
        check("s3://", "no: 's3://' names no bucket");
        check("s3:///x", "no: 's3:///x' names no bucket");
        check("s3://b?x", "no: 's3://b?x' names no bucket");
        check("s3://b/a//c", "no: 's3://b/a//c' has an empty part, or one that is . or ..");
        check("s3://b/../c", "no: 's3://b/../c' has an empty part, or one that is . or ..");
    }

    #[test]
    fn directories_are_told_apart() {
        assert!(BucketPlace::is_meant_by("gs://b"));
        assert!(!BucketPlace::is_meant_by("./s3"));
        assert!(!BucketPlace::is_meant_by("file:///tmp"));
    }
}
