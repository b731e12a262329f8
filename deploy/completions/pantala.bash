# Completion of pantala for bash.
# Written by `cargo xtask docs` from the rows in crates/settings.

_pantala_tools="check journal top doctor sizing import ping"
_pantala_flags="
--acl-pubsub-default=
--aclfile=
--acllog-max-len=
--active-defrag-cycle-max=
--active-defrag-cycle-min=
--active-defrag-cycle-us=
--active-defrag-ignore-bytes=
--active-defrag-threshold-lower=
--active-defrag-threshold-upper=
--activedefrag=
--admin_bind=
--admin_nopass=
--admin_port=
--aof-disable-auto-gc=
--aof-load-truncated=
--aof-timestamp-enabled=
--aof-use-rdb-preamble=
--appenddirname=
--appendfilename=
--appendfsync=
--appendonly=
--auth_failure_delay=
--auth_timeout=
--auto-aof-rewrite-min-size=
--auto-aof-rewrite-percentage=
--availability-zone=
--bind=
--bind-source-addr=
--busy-reply-threshold=
--cache_mode=
--client-output-buffer-limit=
--client-query-buffer-limit=
--cluster-allow-pubsubshard-when-down=
--cluster-allow-reads-when-down=
--cluster-announce-bus-port=
--cluster-announce-hostname=
--cluster-announce-ip=
--cluster-announce-port=
--cluster-announce-tls-port=
--cluster-config-file=
--cluster-databases=
--cluster-enabled=
--cluster-etcd=
--cluster-etcd-ca-file=
--cluster-etcd-cert-file=
--cluster-etcd-failsafe=
--cluster-etcd-key-file=
--cluster-etcd-password=
--cluster-etcd-user=
--cluster-manual-failover-timeout=
--cluster-name=
--cluster-node-timeout=
--cluster-preferred-endpoint-type=
--cluster-require-full-coverage=
--cluster_mode=
--cluster_node_id=
--commandlog-execution-slower-than=
--commandlog-large-reply-max-len=
--commandlog-large-request-max-len=
--commandlog-reply-larger-than=
--commandlog-request-larger-than=
--commandlog-slow-execution-max-len=
--core_dumps=
--crash-log-enabled=
--databases=
--dbfilename=
--dir=
--enable-debug-command=
--enable-protected-configs=
--hash-max-listpack-entries=
--hash-max-listpack-value=
--hash-seed=
--hide-user-data-from-log=
--hll-sparse-max-bytes=
--hot-keys-sample=
--http_admin_console=
--http_hosts=
--import-mode=
--io_engine=
--journal-ring-dir=
--journald_enabled=
--keys_output_limit=
--landlock=
--latency-monitor-threshold=
--latency-tracking=
--latency-tracking-info-percentiles=
--lazyfree-lazy-user-flush=
--list-compress-depth=
--list-max-listpack-size=
--load=
--log-format=
--log-timestamp-format=
--logfile=
--loglevel=
--lua_memory_limit=
--max-new-tls-connections-per-cycle=
--maxclients=
--maxmemory=
--maxmemory-clients=
--maxmemory-eviction-tenacity=
--maxmemory-policy=
--memcached_item_size_max=
--memcached_port=
--metrics_names=
--min-replicas-max-lag=
--min-replicas-to-write=
--no-appendfsync-on-rewrite=
--no_tls_on_admin_port=
--notify-keyspace-events=
--oom-score-adj=
--oom-score-adj-values=
--otlp_attributes=
--otlp_endpoint=
--otlp_headers=
--otlp_interval=
--otlp_sample=
--pidfile=
--port=
--primary_port_http_enabled=
--primary_port_memcached=
--primaryauth=
--primaryuser=
--proc-title-template=
--propagation-error-behavior=
--protected-mode=
--proto-max-bulk-len=
--rdb-save-incremental-fsync=
--rdb-version-check=
--rdbchecksum=
--rdbcompression=
--repl-backlog-size=
--repl-backlog-ttl=
--repl-copy-compression=
--repl-diskless-load=
--repl-diskless-sync=
--repl-diskless-sync-delay=
--repl-diskless-sync-max-replicas=
--repl-ping-replica-period=
--repl-refuse-unknown=
--repl-timeout=
--replica-announce-ip=
--replica-announce-port=
--replica-announced=
--replica-ignore-maxmemory=
--replica-priority=
--replica-read-only=
--replica-serve-stale-data=
--replicaof=
--requirepass=
--save=
--save_schedule=
--set-max-intset-entries=
--set-max-listpack-entries=
--set-max-listpack-value=
--set-proc-title=
--shutdown-on-sigint=
--shutdown-on-sigterm=
--shutdown-timeout=
--skip_module_values=
--slow_lane_threads=
--snapshot_cron=
--snapshot_portable=
--snapshot_threads=
--stop-writes-on-bgsave-error=
--stream-node-max-bytes=
--stream-node-max-entries=
--supervised=
--syslog-enabled=
--syslog-facility=
--syslog-ident=
--tcp-backlog=
--tcp-keepalive=
--threads=
--timeout=
--tls=
--tls-auth-clients=
--tls-auth-clients-user=
--tls-auto-reload-interval=
--tls-ca-cert-dir=
--tls-ca-cert-file=
--tls-cert-file=
--tls-ciphers=
--tls-ciphersuites=
--tls-client-cert-file=
--tls-client-key-file=
--tls-client-key-file-pass=
--tls-key-file=
--tls-key-file-pass=
--tls-port=
--tls-prefer-server-ciphers=
--tls-protocols=
--tls-replication=
--tls-session-cache-timeout=
--tls-session-caching=
--tls_accept_plain=
--tls_handshake_timeout=
--tracking-table-max-keys=
--unixsocket=
--unixsocketgroup=
--unixsocketperm=
--zset-max-listpack-entries=
--zset-max-listpack-value=
--help
--helpfull
--version
--force_epoll
--flagfile=
"

# The value of `--flag=value`, where bash cuts at `=`, and of `--flag value`.
_pantala() {
    local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]}
    [ "$word" != = ] || word=
    [ "$flag" != = ] || flag=${COMP_WORDS[COMP_CWORD - 2]}
    COMPREPLY=()
    case $flag in
        --acl-pubsub-default)
            mapfile -t COMPREPLY < <(compgen -W "allchannels resetchannels" -- "$word")
            ;;
        --aclfile)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --activedefrag)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --admin_nopass)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --aof-disable-auto-gc)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --aof-load-truncated)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --aof-timestamp-enabled)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --aof-use-rdb-preamble)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --appendfsync)
            mapfile -t COMPREPLY < <(compgen -W "everysec always no" -- "$word")
            ;;
        --appendonly)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --cache_mode)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --cluster-allow-pubsubshard-when-down)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --cluster-allow-reads-when-down)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --cluster-enabled)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --cluster-etcd-ca-file)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --cluster-etcd-cert-file)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --cluster-etcd-failsafe)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --cluster-etcd-key-file)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --cluster-preferred-endpoint-type)
            mapfile -t COMPREPLY < <(compgen -W "ip hostname unknown-endpoint" -- "$word")
            ;;
        --cluster-require-full-coverage)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --cluster_mode)
            mapfile -t COMPREPLY < <(compgen -W " emulated" -- "$word")
            ;;
        --core_dumps)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --crash-log-enabled)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --dir)
            mapfile -t COMPREPLY < <(compgen -d -- "$word")
            ;;
        --enable-debug-command)
            mapfile -t COMPREPLY < <(compgen -W "no yes local" -- "$word")
            ;;
        --enable-protected-configs)
            mapfile -t COMPREPLY < <(compgen -W "no yes local" -- "$word")
            ;;
        --hide-user-data-from-log)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --http_admin_console)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --import-mode)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --io_engine)
            mapfile -t COMPREPLY < <(compgen -W "auto uring epoll" -- "$word")
            ;;
        --journal-ring-dir)
            mapfile -t COMPREPLY < <(compgen -d -- "$word")
            ;;
        --journald_enabled)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --landlock)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --latency-tracking)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --lazyfree-lazy-user-flush)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --log-format)
            mapfile -t COMPREPLY < <(compgen -W "legacy logfmt json" -- "$word")
            ;;
        --log-timestamp-format)
            mapfile -t COMPREPLY < <(compgen -W "legacy iso8601 milliseconds" -- "$word")
            ;;
        --logfile)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --loglevel)
            mapfile -t COMPREPLY < <(compgen -W "debug verbose notice warning nothing" -- "$word")
            ;;
        --maxmemory-policy)
            mapfile -t COMPREPLY < <(compgen -W "volatile-lru volatile-lfu volatile-random volatile-ttl allkeys-lru allkeys-lfu allkeys-random noeviction" -- "$word")
            ;;
        --no-appendfsync-on-rewrite)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --no_tls_on_admin_port)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --pidfile)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --primary_port_http_enabled)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --primary_port_memcached)
            mapfile -t COMPREPLY < <(compgen -W "no clear yes" -- "$word")
            ;;
        --propagation-error-behavior)
            mapfile -t COMPREPLY < <(compgen -W "ignore panic panic-on-replicas" -- "$word")
            ;;
        --protected-mode)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --rdb-save-incremental-fsync)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --rdb-version-check)
            mapfile -t COMPREPLY < <(compgen -W "strict relaxed" -- "$word")
            ;;
        --rdbchecksum)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --rdbcompression)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --repl-copy-compression)
            mapfile -t COMPREPLY < <(compgen -W "auto yes no" -- "$word")
            ;;
        --repl-diskless-load)
            mapfile -t COMPREPLY < <(compgen -W "disabled on-empty-db swapdb flush-before-load" -- "$word")
            ;;
        --repl-diskless-sync)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --repl-refuse-unknown)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --replica-announced)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --replica-ignore-maxmemory)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --replica-read-only)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --replica-serve-stale-data)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --set-proc-title)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --skip_module_values)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --snapshot_portable)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --snapshot_threads)
            mapfile -t COMPREPLY < <(compgen -W "auto" -- "$word")
            ;;
        --stop-writes-on-bgsave-error)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --supervised)
            mapfile -t COMPREPLY < <(compgen -W "upstart systemd auto no" -- "$word")
            ;;
        --syslog-enabled)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --syslog-facility)
            mapfile -t COMPREPLY < <(compgen -W "user local0 local1 local2 local3 local4 local5 local6 local7" -- "$word")
            ;;
        --threads)
            mapfile -t COMPREPLY < <(compgen -W "auto" -- "$word")
            ;;
        --tls)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --tls-auth-clients)
            mapfile -t COMPREPLY < <(compgen -W "no yes optional" -- "$word")
            ;;
        --tls-auth-clients-user)
            mapfile -t COMPREPLY < <(compgen -W "CN URI off" -- "$word")
            ;;
        --tls-ca-cert-dir)
            mapfile -t COMPREPLY < <(compgen -d -- "$word")
            ;;
        --tls-ca-cert-file)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --tls-cert-file)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --tls-client-cert-file)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --tls-client-key-file)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --tls-key-file)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --tls-prefer-server-ciphers)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --tls-replication)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --tls-session-caching)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --tls_accept_plain)
            mapfile -t COMPREPLY < <(compgen -W "yes no" -- "$word")
            ;;
        --unixsocket)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        --flagfile)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        *)
            if [[ $word = -* ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$_pantala_flags" -- "$word")
                [ ${#COMPREPLY[@]} != 1 ] || [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace
            elif [ "$COMP_CWORD" = 1 ]; then
                mapfile -t COMPREPLY < <(compgen -W "$_pantala_tools" -- "$word"
                    compgen -f -- "$word")
                compopt -o filenames
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$word")
                compopt -o filenames
            fi
            ;;
    esac
}

complete -F _pantala pantala
