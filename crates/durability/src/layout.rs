//! Where the append-only file lies, by the settings.

use std::path::Path;

use pantala_persistence::aof::AofLayout;
use pantala_settings::Settings;

/// The paths of the files, by the settings.
pub fn layout(settings: &Settings) -> AofLayout {
    AofLayout::new(Path::new(&settings.dir), &settings.appenddirname, &settings.appendfilename)
}
