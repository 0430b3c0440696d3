//! Tests renames that refuse, and renames that exchange.

use ringbco::files::{exchange, rename_new};
use std::path::PathBuf;
use std::{fs, io};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ringbco-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    folder
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let at = folder("rename");
    for name in ["one", "two"] {
        fs::create_dir(at.join(name)).unwrap();
        fs::write(at.join(name).join("is"), name).unwrap();
    }
    match rename_new(&at.join("one"), &at.join("two")) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(error.raw_os_error(), Some(17));
            rename_new(&at.join("one"), &at.join("three")).unwrap();
            assert_eq!(fs::read_to_string(at.join("three").join("is")).unwrap(), "one");
            exchange(&at.join("two"), &at.join("three")).unwrap();
            assert_eq!(fs::read_to_string(at.join("three").join("is")).unwrap(), "two");
            assert_eq!(fs::read_to_string(at.join("two").join("is")).unwrap(), "one");
            let missing = exchange(&at.join("two"), &at.join("nothing")).unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        }
        Ok(()) => panic!("replaced a folder"),
    }
    fs::remove_dir_all(at).unwrap();
}
