//! The suite that every store passes.

use std::sync::Arc;

use driver_api::Store;
use testkit::store_suite::Disk;

use crate::Folder;

fn disk() -> Disk {
    let folder = Folder::new();
    let options = folder.options();
    let open = move || {
        let options = options.clone();
        let opened = async {
            let store: Arc<dyn Store> = store::sqlite::open(options).await.unwrap();
            store
        };
        Box::pin(opened) as futures_util::future::BoxFuture<'static, Arc<dyn Store>>
    };
    Disk::new(open, folder)
}

testkit::store_suite!(disk);
