//! Operations on files of GridFS.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document};
use ringway_mongo::GridFs;

use super::super::unified::from_hex;
use super::settings::timeout;
use super::{Done, Stop, has_only};

pub(crate) async fn run(bucket: &GridFs, name: &str, arguments: &Document) -> Done {
    let known = [
        "chunkSizeBytes",
        "disableMD5",
        "filename",
        "id",
        "metadata",
        "newFilename",
        "revision",
        "source",
        "timeoutMS",
    ];
    has_only(name, arguments, &known)?;
    let bucket = match arguments.get_i32("chunkSizeBytes") {
        Ok(size) => bucket.clone().chunk_size(size.try_into().expect("a size")),
        Err(_) => bucket.clone(),
    };
    if let Some(limit) = timeout(arguments) {
        return Err(Stop::Missing(format!("GridFs::{name} with a time of {limit:?}")));
    }
    let id = || arguments.get("id").expect("an id").clone();
    let text = |name| arguments.get_str(name).expect("a text");
    match name {
        "upload" => return upload(&bucket, arguments).await,
        "download" => return Ok(bytes(bucket.download(id()).await?)),
        "downloadByName" => {
            let revision = arguments.get_i32("revision").unwrap_or(-1);
            let file = bucket.open_by_name(text("filename"), revision).await?;
            return Ok(bytes(file.read_to_end().await?));
        }
        "delete" => bucket.delete(id()).await?,
        "deleteByName" => bucket.delete_by_name(text("filename")).await?,
        "rename" => bucket.rename(id(), text("newFilename")).await?,
        "renameByName" => bucket.rename_by_name(text("filename"), text("newFilename")).await?,
        "drop" => bucket.drop().await?,
        other => return Err(Stop::Missing(format!("GridFs::{other}"))),
    }
    Ok(Bson::Null)
}

async fn upload(bucket: &GridFs, arguments: &Document) -> Done {
    let mut upload = bucket.begin(arguments.get_str("filename").expect("a name"));
    if let Ok(metadata) = arguments.get_document("metadata") {
        upload = upload.metadata(metadata.clone());
    }
    if let Some(id) = arguments.get("id") {
        upload = upload.id(id.clone());
    }
    let source = arguments.get_document("source").expect("a source");
    upload.write(&from_hex(source.get_str("$$hexBytes").expect("bytes"))).await?;
    Ok(upload.finish().await?)
}

fn bytes(bytes: Vec<u8>) -> Bson {
    Binary { subtype: BinarySubtype::Generic, bytes }.into()
}
