import { execFile } from 'node:child_process';
import { chmod, chown, copyFile, mkdir, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { connectClient } from '../../../src/store/postgres/connect/connect-client.ts';
import { SSL_MODES } from '../../../src/store/postgres/connect/connection-parameters.ts';
import { readConnectionSettings } from '../../../src/store/postgres/connect/connection-settings.ts';
import { parseDatabaseTarget } from '../../../src/store/postgres/connect/database-target.ts';
import { findPostgres, unprivilegedIdentity } from '../../helpers/postgres/programs.ts';
import { type Cluster, startCluster } from '../../helpers/postgres.ts';
import { temporaryDirectory } from '../../helpers/temp.ts';
import { AUTHORITY, type Certificate, TLS_DIRECTORY } from '../../helpers/tls-server.ts';

// Compares our connections with those of psql, which uses libpq.

type Env = Record<string, string>;
type Machine = { home: string; env?: Env | undefined };

const HBA_RULES = `
local     all postgres             trust
host      all postgres  127.0.0.1/32 trust
hostssl   all tls_only  127.0.0.1/32 trust
hostnossl all plain_only 127.0.0.1/32 trust
host      all open      127.0.0.1/32 trust
host      all scram     127.0.0.1/32 scram-sha-256
local     all scram                scram-sha-256
host      all md5       127.0.0.1/32 md5
host      all cleartext 127.0.0.1/32 password
hostnossl all mixed     127.0.0.1/32 trust
hostssl   all mixed     127.0.0.1/32 scram-sha-256
hostssl   all localhost 127.0.0.1/32 cert
local     all all                  peer
`;
const PASSWORD = "p@s/s:w%o r#d?&='ä🐈";
const ROLES = ['tls_only', 'plain_only', 'open', 'scram', 'cleartext', 'mixed', 'localhost'];

async function startServer(): Promise<Cluster & { useCertificate(name: Certificate): Promise<void> }> {
  const directory = await temporaryDirectory();
  await chmod(directory, 0o755);
  const rules = join(directory, 'pg_hba.conf');
  await writeFile(rules, HBA_RULES);
  const key = join(directory, 'server.key');
  await copyFile(join(TLS_DIRECTORY, 'server.key'), key);
  await chmod(key, 0o600);
  const { uid, gid } = unprivilegedIdentity();
  if (uid !== undefined && gid !== undefined) await chown(key, uid, gid);
  const copy = async (name: string): Promise<string> => {
    const path = join(directory, name);
    await copyFile(join(TLS_DIRECTORY, name), path);
    await chmod(path, 0o644);
    return path;
  };
  const settings = {
    hba_file: rules,
    ssl_key_file: key,
    ssl_cert_file: await copy('localhost.pem'),
    ssl_ca_file: await copy('ca.pem'),
    fsync: 'off',
  };
  const cluster = await startCluster({ settings });
  const password = PASSWORD.replaceAll("'", "''");
  const roles = [...new Set([...ROLES, userInfo().username])].filter((role) => role !== 'postgres');
  await cluster.sql(
    'postgres',
    roles.map((role) => `create role "${role}" login password '${password}';`).join(''),
  );
  await cluster.sql(
    'postgres',
    `set password_encryption = md5; create role md5 login password '${password}'`,
  );
  const useCertificate = async (name: Certificate) => cluster.set('ssl_cert_file', await copy(`${name}.pem`));
  return { ...cluster, useCertificate };
}

/** A home directory with these files, which only their owner can read. */
async function home(files: Record<string, string> = {}): Promise<string> {
  const directory = await temporaryDirectory();
  await mkdir(join(directory, '.postgresql'));
  for (const [name, source] of Object.entries(files)) {
    await copyFile(source, join(directory, name));
    await chmod(join(directory, name), 0o600);
  }
  return directory;
}

const QUERY =
  "select case when ssl then 'TLS' else 'plain' end || ' ' || current_user || ' ' || current_database() as state" +
  ' from pg_stat_ssl where pid = pg_backend_pid()';

/** Messages of psql and of pets with the same meaning. */
const MEANINGS: Record<string, RegExp> = {
  'unusable file': /cannot (read|use)|could not read/,
  'no channel binding': /channel binding/,
  'no TLS': /does not support SSL/,
  'not trusted':
    /certificate verify failed|self-signed certificate|certificate has expired|unable to (get|verify)/,
  'other host': /does not match host name|does not match certificate's altnames/,
  'no authority': /root certificate file .* does not exist|needs the certificate of an authority/,
  refused: /pg_hba\.conf/,
  'wrong password': /password authentication failed/,
  'no password': /no password supplied|asks for a password/,
  'no database': /database ".*" does not exist/,
  'no server': /Connection refused|ECONNREFUSED|No such file or directory|ENOENT/,
  'no peer': /Peer authentication failed/,
  'no certificate': /requires a valid client certificate/,
  'other port': /invalid port number|invalid integer value|port of the database is not a number/,
  'several hosts': /several hosts/,
  'private key': /private key/,
  'read-only': /session is read-only/,
  'not valid':
    /invalid|unrecognized|not valid|not supported|key\/value separator|forbidden value|end of string|unexpected character/,
};

function meaningOf(message: string): string {
  const known = Object.entries(MEANINGS).find(([, pattern]) => pattern.test(message));
  return known ? known[0] : message;
}

const psql = join(findPostgres()?.directory ?? '', 'psql');
const run = promisify(execFile);

async function resultOfPsql(url: string, { home, env = {} }: Machine): Promise<string> {
  const options = { env: { PATH: process.env['PATH'], HOME: home, LC_ALL: 'C', ...env } };
  try {
    const { stdout } = await run(psql, ['-X', '-w', '-At', '-c', QUERY, url], options);
    return stdout.trim();
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string };
    // psql prints the errors of all attempts.
    return meaningOf(stderr.slice(Math.max(0, stderr.lastIndexOf('connection to server'))));
  }
}

async function connect(url: string, { home, env = {} }: Machine): Promise<Client> {
  const target = parseDatabaseTarget(url, { env, homeDirectory: home, userName: userInfo().username });
  return connectClient(await readConnectionSettings(target, home), { application_name: 'test' });
}

async function resultOfPets(url: string, machine: Machine): Promise<string> {
  try {
    const client = await connect(url, machine);
    const { rows } = await client.query(QUERY);
    await client.end();
    return rows[0].state;
  } catch (error) {
    const { message, stack } = error as Error;
    const isShown = [PASSWORD, encodeURIComponent(PASSWORD)].some((text) =>
      `${message} ${stack}`.includes(text),
    );
    return isShown ? 'the password is shown' : meaningOf(message);
  }
}

type Case = [url: string, home: string, env?: Env];

/** Connects with psql and with pets. */
const compare = (cases: Case[]) =>
  Promise.all(
    cases.map(async ([url, home, env]) => {
      const [psql, pets] = await Promise.all([
        resultOfPsql(url, { home, env }),
        resultOfPets(url, { home, env }),
      ]);
      return { url, home, env, psql, pets };
    }),
  );

const differences = (results: Awaited<ReturnType<typeof compare>>) =>
  results.filter(({ psql, pets }) => psql !== pets);

const MODES = ['', ...SSL_MODES.map((mode) => `sslmode=${mode}`)];

test('connects with each sslmode exactly when psql does, and with the same encryption', async () => {
  const server = await startServer();
  const none = await home();
  const trusted = await home({ '.postgresql/root.crt': AUTHORITY });
  const other = await home({ '.postgresql/root.crt': join(TLS_DIRECTORY, 'self-signed.pem') });
  const results: Awaited<ReturnType<typeof compare>> = [];
  const compareModes = async (users: string[], homes: string[]) => {
    for (const user of users) {
      const at = `${user}@localhost:${server.port}/postgres`;
      const cases = homes.flatMap((home) => MODES.map((mode): Case => [`postgres://${at}?${mode}`, home]));
      results.push(...(await compare(cases)));
    }
  };
  const users = ['open', 'tls_only', 'plain_only'];
  await compareModes(users, [trusted]);
  await server.set('ssl', 'on');
  await compareModes(users, [none, trusted, other]);
  for (const certificate of ['expired', 'other-host', 'self-signed'] as const) {
    await server.useCertificate(certificate);
    await compareModes(['tls_only'], [none, trusted]);
  }
  expect(differences(results)).toEqual([]);
  expect(new Set(results.map(({ pets }) => pets))).toEqual(
    new Set([
      'TLS open postgres',
      'TLS tls_only postgres',
      'plain open postgres',
      'plain plain_only postgres',
      'no TLS',
      'no authority',
      'not trusted',
      'other host',
      'refused',
    ]),
  );
});

const key = join(TLS_DIRECTORY, 'server.key');
const certificate = join(TLS_DIRECTORY, 'localhost.pem');
const clientCertificate = { '.postgresql/postgresql.crt': certificate, '.postgresql/postgresql.key': key };

test('authenticates exactly when psql does', async () => {
  const server = await startServer();
  await server.set('ssl', 'on');
  const { port, directory } = server;
  const empty = await home();
  const encoded = encodeURIComponent(PASSWORD);
  const escaped = PASSWORD.replace(/[\\:]/g, '\\$&');
  const passwords = join(await temporaryDirectory(), 'passwords');
  await writeFile(passwords, `other:*:*:*:x\n127.0.0.1:${port}:*:scram:${escaped}\n`);
  const forAddress = await home({ '.pgpass': passwords });
  await writeFile(passwords, `localhost:${port}:*:scram:${escaped}\n${directory}:*:*:*:${escaped}\n`);
  const forOthers = await home({ '.pgpass': passwords });
  const readable = await home({ '.pgpass': passwords });
  await chmod(join(readable, '.pgpass'), 0o644);
  const withCertificate = await home(clientCertificate);
  const withReadableKey = await home(clientCertificate);
  await chmod(join(withReadableKey, '.postgresql/postgresql.key'), 0o644);
  const at = `127.0.0.1:${port}/postgres`;
  const variables = { PGHOST: '127.0.0.1', PGPORT: `${port}`, PGDATABASE: 'postgres', PGUSER: 'tls_only' };
  const socket = { PGHOST: directory, PGPORT: `${port}` };
  const results = await compare([
    ...['scram', 'md5', 'cleartext', 'mixed'].flatMap((user): Case[] => [
      [`postgres://${user}:${encoded}@${at}`, empty],
      [`postgres://${user}:${encoded}@${at}?sslmode=disable`, empty],
      [`postgres://${user}@${at}?password=${encoded}`, empty],
      [`postgres://${user}@${at}`, empty, { PGPASSWORD: PASSWORD }],
      [`postgres://${user}:wrong@${at}`, empty, { PGPASSWORD: PASSWORD }],
      [`postgres://${user}@${at}`, empty, { PGPASSWORD: '' }],
    ]),
    [`postgres://scram@${at}`, forAddress],
    [`postgres://scram@${at}`, forAddress, { PGPASSWORD: 'wrong' }],
    [`postgres://scram@${at}`, forOthers],
    [`postgres://scram@${at}`, empty, { PGPASSFILE: join(forAddress, '.pgpass') }],
    [`postgres://scram@localhost:${port}/postgres`, forAddress],
    [`postgres://scram@localhost:${port}/postgres`, forOthers],
    [`postgres://scram@localhost:${port}/postgres`, readable],
    [`postgres://scram@/postgres?host=${directory}&port=${port}`, forOthers],
    [`postgres://scram@${encodeURIComponent(directory)}:${port}/postgres`, forOthers],
    [`postgres://scram@/postgres?host=${directory}&port=${port}`, forAddress],
    [`postgres:///postgres?host=${directory}&port=${port}`, empty],
    [`postgres:///postgres?host=${directory}&port=${port}&sslmode=verify-full`, empty],
    [`postgres://open@/postgres?host=${directory}&port=${port}`, empty],
    ['postgres://', empty, { ...socket, PGUSER: 'postgres' }],
    ['postgres://', empty, { ...socket, PGDATABASE: 'postgres' }],
    ['postgres://', empty, socket],
    ['postgres://', empty, variables],
    ['postgres://', empty, { ...variables, PGSSLMODE: 'disable' }],
    ['postgres://?sslmode=require', empty, { ...variables, PGSSLMODE: 'disable' }],
    ['postgres://?sslmode=verify-full', empty, { ...variables, PGSSLROOTCERT: AUTHORITY }],
    [`postgres://localhost@${at}`, empty],
    [`postgres://localhost@${at}`, withCertificate],
    [`postgres://localhost@${at}?sslmode=require`, withReadableKey],
    [
      `postgres://localhost@${at}?sslcert=${certificate}&sslkey=${withCertificate}/.postgresql/postgresql.key`,
      empty,
    ],
    ...['open', 'md5', 'cleartext', 'scram'].map(
      (user): Case => [`postgres://${user}:${encoded}@${at}?channel_binding=require`, empty],
    ),
    // A wrong password would have another result if it was sent.
    [`postgres://cleartext:wrong@${at}?channel_binding=require`, empty],
    [`postgres://scram:${encoded}@${at}?channel_binding=disable`, empty],
    ['postgres://open@127.0.0.1:1/postgres', empty],
    [`postgres:///postgres?host=${empty}`, empty],
  ]);
  expect(differences(results)).toEqual([]);
  expect(new Set(results.map(({ pets }) => pets.replace(/^(TLS|plain) .*/, '$1')))).toEqual(
    new Set([
      'TLS',
      'plain',
      'wrong password',
      'no password',
      'no peer',
      'no database',
      'refused',
      'private key',
      'no channel binding',
      'no server',
    ]),
  );
});

test('accepts the URLs that psql accepts', async () => {
  const { port } = await startServer();
  const empty = await home();
  const at = `127.0.0.1:${port}`;
  const encoded = encodeURIComponent(PASSWORD);
  const urls = [
    `open@${at}/postgres`,
    `open@${at}/postgres?`,
    `open@${at}/postgres?ssl=true`,
    `open@${at}/postgres?sslmode=`,
    `open@${at}/postgres?sslmode=full`,
    `open@${at}/postgres?sslmode`,
    `open@${at}/postgres?sslmod=require`,
    `open@${at}/postgres?options=a=b`,
    `open@${at}/postgres?options=-c%20search_path%3Dx`,
    `open@${at}/postgres?application_name=a+b&connect_timeout=5`,
    `open@${at}/postgres?target_session_attrs=read-write`,
    `open@${at}/postgres?target_session_attrs=none`,
    `open@${at}/postgres?gssencmode=disable`,
    `open@${at}/p%6fstgres`,
    `open@${at}/p%zz`,
    `open@${at}/p%00`,
    `open@${at}/none`,
    `open@${at}/`,
    'open@127.0.0.1:0/postgres',
    'open@127.0.0.1:65536/postgres',
    'open@127.0.0.1:x/postgres',
    `open@${at}x/postgres`,
    `open@[127.0.0.1]:${port}/postgres`,
    `open@[${at}/postgres`,
    `open@[127.0.0.1]x:${port}/postgres`,
    `open@other/none?host=127.0.0.1&port=${port}&dbname=postgres&user=scram&password=${encoded}`,
    `scram:p?s#@${at}/postgres`,
  ];
  const results = await compare(urls.map((rest) => [`postgresql://${rest}`, empty]));
  expect(differences(results)).toEqual([]);
  expect(new Set(results.map(({ pets }) => pets))).toEqual(
    new Set([
      'plain open postgres',
      'plain scram postgres',
      'no TLS',
      'no database',
      'not valid',
      'other port',
      'wrong password',
    ]),
  );
});

test('differs from psql only if a setting would be ignored or a password shown', async () => {
  const server = await startServer();
  await server.set('ssl', 'on');
  const { port } = server;
  const at = `127.0.0.1:${port}/postgres`;
  const encoded = encodeURIComponent(PASSWORD);
  const empty = await home();
  const withReadableKey = await home(clientCertificate);
  await chmod(join(withReadableKey, '.postgresql/postgresql.key'), 0o644);
  const withoutCertificates = await home({ '.postgresql/root.crt': join(TLS_DIRECTORY, 'make.sh') });
  const rows: [...Case, psql: string, pets: string][] = [];
  const add = (psql: string, pets: string, ...[url, home, env = {}]: Case) =>
    rows.push([url, home, env, psql, pets]);
  add('TLS open postgres', 'several hosts', `postgres://open@127.0.0.1:1,${at}`, empty);
  add('TLS open postgres', 'unusable file', `postgres://open@${at}?sslmode=require&sslrootcert=/none`, empty);
  add('TLS open postgres', 'unusable file', `postgres://open@${at}?sslcert=/none`, empty);
  add('plain open postgres', 'unusable file', `postgres://open@${at}`, withoutCertificates);
  add('plain open postgres', 'private key', `postgres://open@${at}`, withReadableKey);
  add('TLS open postgres', 'not valid', `postgres://open@${at}?keepalives=1`, empty);
  add('TLS open postgres', 'not valid', `postgres://open@${at}?application_name=a@b`, empty);
  add('TLS open postgres', 'not valid', `postgres://open@other:${port}/postgres`, empty, {
    PGHOSTADDR: '127.0.0.1',
  });
  add('no server', 'not valid', `postgres://scram:p@/s@${at}`, empty);
  add('other port', 'not valid', `postgres://scram:p/s@${at}`, empty);
  const binding = 'channel_binding=require&sslmode=allow';
  add('no channel binding', 'TLS scram postgres', `postgres://scram:${encoded}@${at}?${binding}`, empty);
  // If the system has no socket of the server, pets uses localhost.
  add('no server', 'TLS open postgres', `postgres://open@:${port}/postgres`, empty);
  const readOnly = { PGOPTIONS: '-c default_transaction_read_only=on' };
  const attributes = 'target_session_attrs=read-write';
  add('read-only', 'TLS open postgres', `postgres://open@${at}?${attributes}`, empty, readOnly);
  const results = await compare(rows.map(([url, home, env]) => [url, home, env ?? {}]));
  expect(results.map(({ url, home, env, psql, pets }) => [url, home, env, psql, pets])).toEqual(rows);
});
