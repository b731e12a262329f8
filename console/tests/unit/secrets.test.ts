import assert from 'node:assert/strict';
import test from 'node:test';
import { holdsSecret } from '../../src/api/secrets';

test('lines with secrets are known by any of their words', () => {
  for (const line of [
    'AUTH x',
    'auth user x',
    'HELLO 3 AUTH user x',
    'MIGRATE host 6379 key 0 1000 AUTH x',
    'MIGRATE host 6379 "" 0 1000 COPY AUTH2 user x KEYS a b',
    'ACL SETUSER bob on >x',
    '  acl   setuser bob >x',
    'CONFIG SET requirepass x',
    'CONFIG SET maxmemory 1gb requirepass x',
    'CONFIG SET maxmemory requirepass x',
    'config set maxmemory 1gb MASTERAUTH x',
    'CONFIG SET port 1 tls-key-file-pass x',
    'CONFIG SET port 1 tls-client-key-file-pass x',
    'CONFIG SET otlp_headers api=x',
    'CONFIG SET "requirepass" x',
    'CONFIG SET "require\\x70ass" x',
    '"AUTH" x',
    'AUTH "x',
    '"AUTH" \'x',
    'CONFIG SET maxmemory 1gb requirepass "x y',
    'CONFIG\tSET\trequirepass\tx',
  ]) {
    assert.ok(holdsSecret(line), line);
  }
});

test('other lines are kept', () => {
  for (const line of [
    '',
    'GET password',
    'SET auth requirepass',
    'CONFIG GET requirepass',
    'CONFIG SET maxmemory 1gb maxmemory-policy allkeys-lru',
    'ACL LIST',
    'ACL WHOAMI',
    'SET a "open',
  ]) {
    assert.ok(!holdsSecret(line), line);
  }
});
