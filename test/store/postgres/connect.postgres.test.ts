import { chmod, chown, copyFile, rm, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { PrimaryConnector, parseDatabaseTarget } from '../../../src/store/postgres/connector.ts';
import { type Cluster, createCluster } from '../../helpers/postgres/cluster.ts';
import { unprivilegedIdentity } from '../../helpers/postgres/programs.ts';
import { makeTemporaryDirectory, temporaryDirectory } from '../../helpers/temp.ts';
import { AUTHORITY, type Certificate, TLS_DIRECTORY } from '../../helpers/tls-server.ts';

// Connects to a real server that demands a password from some users, and a certificate from others.

const HBA_RULES = `
local     all postgres             trust
host      all postgres  127.0.0.1/32 trust
host      all open      127.0.0.1/32 trust
host      all scram     127.0.0.1/32 scram-sha-256
local     all scram                scram-sha-256
hostssl   all localhost 127.0.0.1/32 cert
local     all all                  peer
`;
const PASSWORD = "p@s/s:w%o r#d?&='ä🐈";
const ENCODED = encodeURIComponent(PASSWORD);
const ROLES = ['open', 'scram', 'localhost'];
const QUERY =
  "select case when ssl then 'TLS' else 'plain' end || ' ' || current_user || ' ' || current_database() as state" +
  ' from pg_stat_ssl where pid = pg_backend_pid()';

let server: Cluster;
let files: string;

async function copyForServer(name: string, mode = 0o644): Promise<string> {
  const path = join(files, name);
  await copyFile(join(TLS_DIRECTORY, name), path);
  const { uid, gid } = unprivilegedIdentity();
  if (uid !== undefined && gid !== undefined) await chown(path, uid, gid);
  await chmod(path, mode);
  return path;
}

beforeAll(async () => {
  files = await makeTemporaryDirectory();
  await chmod(files, 0o755);
  await writeFile(join(files, 'pg_hba.conf'), HBA_RULES);
  server = await createCluster({
    settings: {
      hba_file: join(files, 'pg_hba.conf'),
      ssl_key_file: await copyForServer('server.key', 0o600),
      ssl_cert_file: await copyForServer('localhost.pem'),
      ssl_ca_file: await copyForServer('ca.pem'),
      fsync: 'off',
    },
  });
  const password = PASSWORD.replaceAll("'", "''");
  const roles = ROLES.map((role) => `create role ${role} login password '${password}';`).join('');
  await server.sql('postgres', roles);
});

afterEach(() => void vi.unstubAllEnvs());

afterAll(async () => {
  await server.remove();
  await rm(files, { recursive: true });
});

/** Connects, and returns what the server knows about the connection, or the message and the hint of the error. */
async function resultOf(url: string, env: Record<string, string> = {}): Promise<string> {
  vi.stubEnv('HOME', env['HOME']);
  vi.stubEnv('PGPASSFILE', undefined);
  const connector = new PrimaryConnector(parseDatabaseTarget(url, { env, userName: userInfo().username }));
  try {
    const client = await connector.connect({ timeout: 4_000, isServer: false });
    const { rows } = await client.query(QUERY);
    await client.end();
    return rows[0].state;
  } catch (error) {
    const { message, stack, hint } = error as Error & { hint?: string };
    expect(`${message} ${stack} ${hint}`).not.toContain(PASSWORD);
    expect(`${message} ${stack} ${hint}`).not.toContain(ENCODED);
    return `${message}; ${hint}`;
  }
}

const authority = `sslrootcert=${AUTHORITY}`;
const another = `sslrootcert=${join(TLS_DIRECTORY, 'self-signed.pem')}`;

type ServerWith = Certificate | 'no TLS';

async function serveWith(kind: ServerWith): Promise<void> {
  if (kind !== 'no TLS') await server.set('ssl_cert_file', await copyForServer(`${kind}.pem`));
  await server.set('ssl', kind === 'no TLS' ? 'off' : 'on');
}

test.each<[server: ServerWith, query: string, expected: RegExp]>([
  ['no TLS', '', /^plain open/],
  ['no TLS', 'sslmode=require', /does not support TLS; set ssl = on .*sslmode=disable/],
  ['localhost', '', /^plain open/],
  ['localhost', 'sslmode=require', /^TLS open/],
  ['localhost', `sslmode=require&${another}`, /certificate/],
  ['localhost', `sslmode=verify-ca&${authority}`, /^TLS open/],
  ['localhost', `sslmode=verify-ca&${another}`, /certificate/],
  ['localhost', `sslmode=verify-full&${authority}`, /^TLS open/],
  ['localhost', 'sslmode=verify-full', /certificate/],
  ['localhost', 'sslmode=verify-full&sslrootcert=/none', /cannot read \/none \(ENOENT\); check sslrootcert/],
  ['other-host', `sslmode=verify-ca&${authority}`, /^TLS open/],
  ['other-host', `sslmode=verify-full&${authority}`, /altnames/],
  ['self-signed', 'sslmode=require', /^TLS open/],
  ['self-signed', `sslmode=verify-ca&${authority}`, /certificate/],
  ['expired', `sslmode=verify-ca&${authority}`, /expired/],
])('a server with %s is used with %j: %s', async (kind, query, expected) => {
  await serveWith(kind);
  expect(await resultOf(`postgres://open@localhost:${server.port}/postgres?${query}`)).toMatch(expected);
});

test('with channel_binding=require, a server without channel binding gets no password', async () => {
  await serveWith('localhost');
  const at = `127.0.0.1:${server.port}/postgres?channel_binding=require`;
  expect(await resultOf(`postgres://scram:${ENCODED}@${at}&sslmode=require`)).toBe('TLS scram postgres');
  const refused = /does not offer channel binding; use TLS/;
  expect(await resultOf(`postgres://scram:${ENCODED}@${at}`)).toMatch(refused);
  expect(await resultOf(`postgres://open@${at}&sslmode=require`)).toMatch(refused);
});

test('a client certificate needs its private key', async () => {
  await serveWith('localhost');
  const url = `postgres://localhost@127.0.0.1:${server.port}/postgres?sslmode=require`;
  const certificate = `sslcert=${join(TLS_DIRECTORY, 'localhost.pem')}`;
  expect(await resultOf(url)).toMatch(/valid client certificate/);
  expect(await resultOf(`${url}&${certificate}&sslkey=${join(TLS_DIRECTORY, 'server.key')}`)).toMatch(/^TLS/);
  expect(await resultOf(`${url}&${certificate}&sslkey=${join(TLS_DIRECTORY, 'make.sh')}`)).toMatch(
    /cannot use sslrootcert, sslcert or sslkey: .*PEM/,
  );
});

test('the password is in the URL, in PGPASSWORD, or in ~/.pgpass', async () => {
  await server.set('ssl', 'on');
  const at = `127.0.0.1:${server.port}/postgres`;
  const url = `postgres://scram@${at}`;
  const success = 'plain scram postgres';
  expect(await resultOf(`postgres://scram:${ENCODED}@${at}`, { PGPASSWORD: 'wrong' })).toBe(success);
  expect(await resultOf(`postgres://scram:${ENCODED}@${at}?sslmode=require`)).toBe('TLS scram postgres');
  expect(await resultOf(url, { PGPASSWORD: PASSWORD })).toBe(success);
  expect(await resultOf(`postgres://scram:wrong@${at}`, { PGPASSWORD: PASSWORD })).toMatch(
    /authentication failed/,
  );

  const home = await temporaryDirectory();
  const none = /asks for a password of the user scram, and none is set; set PGPASSWORD, .*mode is 600/;
  expect(await resultOf(url, { HOME: home })).toMatch(none);
  const escaped = PASSWORD.replace(/[\\:]/g, '\\$&');
  const lines = `# a comment\nother:*:*:*:wrong\n127.0.0.1:${server.port}:*:scram:${escaped}\n*:*:*:*:wrong\n`;
  const path = join(home, '.pgpass');
  await writeFile(path, lines, { mode: 0o600 });
  expect(await resultOf(url, { HOME: home })).toBe(success);
  expect(await resultOf(url, { HOME: home, PGPASSWORD: 'wrong' })).toMatch(/authentication failed/);
  await chmod(path, 0o640);
  expect(await resultOf(url, { HOME: home })).toMatch(none);
});

test('the directory of a socket is a host', async () => {
  const socket = `${encodeURIComponent(server.directory)}:${server.port}`;
  expect(await resultOf(`postgres://scram:${ENCODED}@${socket}/postgres`)).toBe('plain scram postgres');
  const url = `postgres://postgres@:${server.port}/postgres?host=${server.directory}`;
  expect(await resultOf(url)).toBe('plain postgres postgres');
});
