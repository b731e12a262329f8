//! `proc-title-template`: what `ps` shows of the process.
//!
//! Not here: the templates (`pantala_settings::shapes::title`); how it gets there
//! (`pantala_base::os::title`). Tests: at the foot; the bad day `process_title`.

use std::path::Path;
use std::sync::OnceLock;

use pantala_base::os;
use pantala_settings::Settings;
use pantala_settings::field::TitleVariable;

use crate::shared::Shared;

/// Shows what the settings say, if they want that.
pub fn show(shared: &Shared) {
    let settings = shared.engine.settings.current();
    if !settings.set_proc_title {
        return;
    }
    let title = title(&settings, program(), shared.engine.settings.file.as_deref());
    if !title.is_empty() {
        os::title::set(&title);
    }
}

/// What the program was called, with its directory.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let name = std::env::args_os().next().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let absolute = || std::path::absolute(&name).ok()?.into_os_string().into_string().ok();
        if name.contains('/') { absolute().unwrap_or(name) } else { name }
    })
}

fn title(settings: &Settings, program: &str, file: Option<&Path>) -> String {
    let port = if settings.port == 0 { settings.tls_port } else { settings.port };
    settings.proc_title_template.expand(|variable| match variable {
        TitleVariable::Title => program.to_owned(),
        TitleVariable::ListenAddr if port == 0 => format!("unixsocket:{}", settings.unixsocket),
        TitleVariable::ListenAddr => {
            let address = settings.bind.first().map_or("*", String::as_str);
            format!("{address}:{port}")
        }
        // There is one.
        TitleVariable::ServerMode => String::new(),
        TitleVariable::Port => settings.port.to_string(),
        TitleVariable::TlsPort => settings.tls_port.to_string(),
        TitleVariable::UnixSocket => settings.unixsocket.clone(),
        TitleVariable::ConfigFile => {
            file.map_or_else(|| "-".into(), |file| file.to_string_lossy().into_owned())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)], want: &str) {
        let settings = pairs.iter().fold(Settings::defaults(), |settings, (name, value)| {
            settings.with(name, value).expect("allowed")
        });
        let file = settings.tls_port.checked_sub(1).map(|_| Path::new("/etc/x.conf"));
        assert_eq!(title(&settings, "/bin/pantala", file), want);
    }

    #[test]
    fn title_tells_where_it_listens() {
        check(&[], "/bin/pantala *:6379");
        check(&[("bind", "127.0.0.1 ::1"), ("port", "7")], "/bin/pantala 127.0.0.1:7");
        check(&[("port", "0"), ("tls-port", "8")], "/bin/pantala *:8");
        check(&[("port", "0"), ("unixsocket", "/run/s")], "/bin/pantala unixsocket:/run/s");
        let all = "{port},{tls-port},{unixsocket},{config-file}{server-mode}";
        check(&[("proc-title-template", all)], "6379,0,,-");
        check(&[("proc-title-template", all), ("tls-port", "8")], "6379,8,,/etc/x.conf");
        check(&[("proc-title-template", "{unixsocket}")], "");
    }
}
