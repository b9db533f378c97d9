import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseError } from 'pg';
import { describe, expect, test } from 'vitest';
import { StoreError } from '../../src/store/errors.ts';
import { isRefusedBecauseOfTls } from '../../src/store/postgres/connect/connect-client.ts';
import { readConnectionSettings } from '../../src/store/postgres/connect/connection-settings.ts';
import { parseDatabaseTarget } from '../../src/store/postgres/connect/database-target.ts';
import { findPassword } from '../../src/store/postgres/connect/password-file.ts';
import { findSocketDirectory } from '../../src/store/postgres/connect/socket-directory.ts';
import { cases } from '../helpers/cases.ts';
import { temporaryDirectory } from '../helpers/temp.ts';
import { AUTHORITY } from '../helpers/tls-server.ts';

type Env = Record<string, string>;

/** Parses a URL for the user ann of the operating system. */
const parse = (url: string, env: Env = {}) =>
  parseDatabaseTarget(url, { env, homeDirectory: '/home/ann', userName: 'ann' });

/** Settings with a home directory that contains these files, which only their owner can read. */
async function settingsFor(url: string, files: Record<string, string> = {}, env: Env = {}) {
  const homeDirectory = await temporaryDirectory();
  await mkdir(join(homeDirectory, '.postgresql'));
  for (const [name, text] of Object.entries(files))
    await writeFile(join(homeDirectory, name), text, { mode: 0o600 });
  const target = parseDatabaseTarget(url, { env, homeDirectory, userName: 'ann' });
  const settings = await readConnectionSettings(target, homeDirectory);
  return { ...settings, homeDirectory };
}

async function passwordFor(url: string, files?: Record<string, string>, env?: Env): Promise<string> {
  const { attempts } = await settingsFor(url, files, env);
  const password = attempts[0]?.password;
  return typeof password === 'function' ? password() : '';
}

function errorOf(run: () => unknown): StoreError {
  try {
    run();
  } catch (error) {
    if (error instanceof StoreError) return error;
    throw error;
  }
  throw new Error('no error');
}

describe('a database URL', () => {
  test.each<[url: string, place: string, env?: Env]>([
    ['postgres://', 'postgres://ann@/ann'],
    ['postgresql://', 'postgres://ann@/ann'],
    ['postgres://bob@', 'postgres://bob@/bob'],
    ['postgres://db', 'postgres://ann@db/ann'],
    ['postgres:///shop', 'postgres://ann@/shop'],
    ['postgres://bob:secret@db.example:5433/shop', 'postgres://bob@db.example:5433/shop'],
    ['postgres://db:5432/shop', 'postgres://ann@db/shop'],
    ['postgres://db:/shop', 'postgres://ann@db/shop'],
    ['postgres://db?port=5433', 'postgres://ann@db:5433/ann'],
    ['postgres://[::1]:5433/shop', 'postgres://ann@[::1]:5433/shop'],
    ['postgres://[fe80::1%25eth0]/shop', 'postgres://ann@[fe80::1%25eth0]/shop'],
    ['postgres:///shop?host=/var/run/pg', 'postgres://ann@/shop?host=/var/run/pg'],
    ['postgres://%2Fvar%2Frun%2Fpg:5433/shop', 'postgres://ann@:5433/shop?host=/var/run/pg'],
    ['postgres://db/a%2Fb%40c%20d', 'postgres://ann@db/a/b%40c%20d'],
    ['postgres://%C3%A4nn@db/caf%C3%A9', 'postgres://%C3%A4nn@db/caf%C3%A9'],
    ['postgres://db/a+b', 'postgres://ann@db/a%2Bb'],
    ['postgres://x/y?host=db&user=bob&dbname=shop', 'postgres://bob@db/shop'],
    ['postgres://db/shop?', 'postgres://ann@db/shop'],
    [
      'postgres://db/shop?sslmode=prefer&target_session_attrs=any',
      'postgres://ann@db/shop?target_session_attrs=any',
    ],
    ['postgres://db/shop?ssl=true', 'postgres://ann@db/shop?sslmode=require'],
    [
      'postgres://db/shop?prepare=off&sslmode=verify-full&sslrootcert=/etc/ca.pem&password=a&sslpassword=b',
      'postgres://ann@db/shop?prepare=off&sslmode=verify-full&sslrootcert=/etc/ca.pem',
    ],
    ['postgres://db/?options=-c%20a%3Db%26c', 'postgres://ann@db/ann?options=-c%20a%3Db%26c'],
    [
      'postgres://',
      'postgres://bob@db:5433/shop',
      { PGHOST: 'db', PGPORT: '5433', PGUSER: 'bob', PGDATABASE: 'shop' },
    ],
    [
      'postgres://eve@x:1/y',
      'postgres://eve@x:1/y',
      { PGHOST: 'db', PGPORT: '5433', PGUSER: 'bob', PGDATABASE: 'shop' },
    ],
    [
      'postgres://db',
      'postgres://ann@db/ann?sslmode=require',
      { PGSSLMODE: 'require', PGPASSWORD: 'secret' },
    ],
    [
      'postgres://',
      'postgres://ann@/ann',
      { PGHOST: '', PGPORT: '', PGUSER: '', PGDATABASE: '', PGPASSWORD: '' },
    ],
  ])('%s is %s', (url, place, env) => {
    const target = parse(url, env);
    expect(target.place).toBe(place);
    // The place can be used again, and does not depend on the environment.
    expect(parse(place).place).toBe(place);
    expect(parse(place)).toMatchObject({
      host: target.host,
      port: target.port,
      user: target.user,
    });
  });

  test.each<[url: string, message: RegExp, hint?: RegExp, env?: Env]>([
    ['mysql://db/shop', /URL is not valid/, /postgres:\/\/user@host/],
    ['postgres:/db', /URL is not valid/],
    ['postgres://[::1/shop', /URL is not valid/],
    ['postgres://[]/shop', /URL is not valid/],
    ['postgres://[::1]x/shop', /URL is not valid/],
    ['postgres://::1/shop', /port of the database/],
    ['postgres://%zz@db', /URL is not valid/],
    ['postgres://a%00b@db', /URL is not valid/],
    ['postgres://%ff@db', /URL is not valid/],
    ['postgres://db:0/shop', /port of the database/],
    ['postgres://db:65536/shop', /port of the database/],
    ['postgres://db:5432x/shop', /port of the database/],
    ['postgres://db', /port of the database/, /:5432/, { PGPORT: '-1' }],
    ['postgres://a,b/shop', /several hosts/, /HAProxy.*docs\/postgres\.md/],
    ['postgres://a:1,b:2/shop', /several hosts/],
    ['postgres:///shop?host=a,b', /several hosts/],
    ['postgres://a%2Cb/shop', /several hosts/],
    ['postgres://', /several hosts/, /HAProxy/, { PGHOST: 'a,b' }],
    ['postgres://db/shop?sslmod=require', /parameter sslmod .*not supported/, /did you mean sslmode\?/],
    ['postgres://db/shop?applicationName=x', /parameter applicationName/, /did you mean application_name\?/],
    ['postgres://db/shop?pgbouncer=true', /parameter pgbouncer/, /host, port.* or prepare/],
    ['postgres://db/shop?host%00=true', /URL is not valid/],
    ['postgres://db/shop?%20%0a=true', /^a parameter of the database URL/],
    ['postgres://db/shop?password=a&b=c', /^a parameter of the database URL/],
    ['postgres://ann:a@db/shop?b=c', /^the parameter b of the database URL/],
    ['postgres://db/shop?service=x', /service .*not supported/, /into the URL/],
    ['postgres://db/shop?sslmode', /URL is not valid/],
    ['postgres://db/shop?options=a=b', /URL is not valid/, /= in a parameter as %3D/],
    ['postgres://db/shop?sslmode=full', /sslmode \(or PGSSLMODE\)/, /disable, allow, .* or verify-full/],
    ['postgres://db/shop?sslmode=', /sslmode/],
    ['postgres://db/shop?prepare=false', /prepare/, /on or off/],
    ['postgres://db/shop?target_session_attrs=standby', /target_session_attrs/, /any or read-write/],
    ['postgres://db/shop?gssencmode=require', /gssencmode/],
    ['postgres://db/shop?connect_timeout=1s', /connect_timeout/, /seconds/],
    ['postgres://db/shop?sslrootcert=system&sslmode=require', /sslrootcert=system/],
    ['postgres://db/shop?sslmode=disable&channel_binding=require', /channel_binding/],
    ['postgres:///shop?host=/tmp&channel_binding=require', /channel_binding/],
    ['postgres://db', /PGSERVICE is not supported/, /URL/, { PGSERVICE: 'shop' }],
    ['postgres://db', /PGHOSTADDR is not supported/, /URL/, { PGHOSTADDR: '127.0.0.1' }],
    ['postgres://db', /sslmode \(or PGSSLMODE\)/, /disable/, { PGSSLMODE: 'on' }],
  ])('%s is refused', (url, message, hint = /./, env) => {
    const error = errorOf(() => parse(url, env));
    expect(error.message).toMatch(message);
    expect(error.hint).toMatch(hint);
  });

  test('needs a user if the operating system has no name for it', () => {
    const environment = { env: {}, homeDirectory: '/', userName: undefined };
    expect(errorOf(() => parseDatabaseTarget('postgres://db/shop', environment)).message).toMatch(/no user/);
    expect(parseDatabaseTarget('postgres://bob@db', environment).place).toBe('postgres://bob@db/bob');
  });

  test.each(['', '0', '-1', '1', '10'])('can contain connect_timeout=%s', (text) => {
    expect(parse(`postgres://db?connect_timeout=${text}`).parameters.connect_timeout).toBe(text);
    expect(parse('postgres://db', { PGCONNECT_TIMEOUT: text }).parameters.connect_timeout).toBe(text);
  });

  test('with prepare=off has no prepared statements', () => {
    expect(parse('postgres://db').prepare).toBe(true);
    expect(parse('postgres://db?prepare=off').prepare).toBe(false);
  });

  test.each([
    ['postgres://ann:p%40ss@db', 'p@ss'],
    ['postgres://ann:a:b@db', 'a:b'],
    ['postgres://ann:a?b#c@db', 'a?b#c'],
    ['postgres://ann:@db', 'not in the URL'],
    ['postgres://ann:a@db?password=b&sslpassword=c', 'b'],
    ['postgres://ann@db', 'not in the URL'],
  ])('%s has the password %j', (url, password) => {
    expect(parse(url, { PGPASSWORD: 'not in the URL' }).parameters.password).toBe(password);
  });
});

/** Text that is not in any message, so that a test can find a part of a password. */
const PARTS = ['Zq7', 'Xw9', 'Kj4'];
const SEPARATORS = [
  '@',
  '/',
  ':',
  '%',
  '#',
  '?',
  '&',
  '=',
  ',',
  '[',
  ']',
  ' ',
  '\n',
  '%zz',
  '%00',
  '\\',
  "'",
  'ä',
  '🐈',
  '\u202e',
];

describe('a password', () => {
  const random = (n: number): number => Math.floor(Math.random() * n);
  const randomPassword = (): string =>
    PARTS.map(
      (part) =>
        part + Array.from({ length: random(4) }, () => SEPARATORS[random(SEPARATORS.length)]).join(''),
    ).join('');
  const hasPart = (text: string): boolean => PARTS.some((part) => text.includes(part));

  test('that is percent-encoded is decoded, and is neither in the place nor in the settings', async () => {
    for (let i = 0; i < cases(500); i++) {
      const password = randomPassword();
      const encoded = encodeURIComponent(password);
      const url =
        [`postgres://bob:${encoded}@db/shop`, `postgres://bob@db/shop?password=${encoded}`][i % 2] ?? '';
      const target = parse(url);
      expect(target.parameters.password).toBe(password);
      expect(target.place).toBe('postgres://bob@db/shop');
      const settings = await readConnectionSettings(target, '/nowhere');
      expect(hasPart(JSON.stringify(settings.attempts))).toBe(false);
    }
  });

  test('that is not percent-encoded is neither in the place nor in a message', () => {
    for (let i = 0; i < cases(20_000); i++) {
      const password = randomPassword();
      const url =
        [
          `postgres://bob:${password}@db/shop`,
          `postgres://bob:${password}@db:5432/shop?sslmode=require`,
          `postgres://bob@db/shop?password=${password}`,
          `postgres://bob@db/shop?sslpassword=${password}&password=${password}`,
          `postgresql:/bob:${password}@db/shop`,
        ][i % 5] ?? '';
      let shown: string;
      try {
        const { place, host = '', database, user } = parse(url);
        shown = [place, host, database, user].join(' ');
      } catch (error) {
        const { message, hint, stack = '', cause } = error as StoreError;
        expect(error).toBeInstanceOf(StoreError);
        shown = [message, hint, stack, String(cause)].join(' ');
      }
      expect(hasPart(shown), `${url} → ${shown}`).toBe(false);
    }
  });
});

describe('~/.pgpass', () => {
  test.each<[text: string, expected: string | undefined]>([
    ['db:5433:shop:bob:secret', 'secret'],
    ['*:*:*:*:secret', 'secret'],
    ['# *:*:*:*:comment\n\ndb:*:shop:bob:secret\r\n*:*:*:*:second', 'secret'],
    ['db:5433:shop:ann:other\ndb:5433:*:bob:secret', 'secret'],
    ['db:5432:*:*:other port', undefined],
    ['DB:5433:shop:bob:other host', undefined],
    ['db:5433:shop:bob', undefined],
    ['*:*:*:*:a:b\\:c\\\\d\\e\\', 'a:b:c\\de\\'],
    ['*:*:*:*: with spaces ', ' with spaces '],
    ['*:*:*:*:', ''],
    ['\\d\\b:5433:sho\\p:bob:secret', 'secret'],
    ['\\*:*:*:*:secret', undefined],
    ['*x:*:*:*:secret', undefined],
  ])('%j contains %j', (text, expected) => {
    expect(findPassword(text, { host: 'db', port: 5433, database: 'shop', user: 'bob' })).toBe(expected);
  });

  test('has fields with escaped colons and backslashes', () => {
    const query = { host: '::1', port: 5432, database: 'a:b', user: 'c\\d' };
    expect(findPassword('\\:\\:1:5432:a\\:b:c\\\\d:secret', query)).toBe('secret');
  });

  test.each([
    ['/var/run/postgresql', 'secret'],
    ['/tmp', 'secret'],
    ['/other', undefined],
  ])('has localhost for the socket in %s: %s', (host, expected) => {
    const query = { host, port: 5432, database: 'shop', user: 'bob' };
    expect(findPassword('localhost:*:*:*:secret', query)).toBe(expected);
  });

  test('has lower precedence than the URL and PGPASSWORD', async () => {
    const files = { '.pgpass': '*:*:*:*:file', other: '*:*:*:*:other' };
    expect(await passwordFor('postgres://db', files)).toBe('file');
    expect(await passwordFor('postgres://db', files, { PGPASSWORD: 'variable' })).toBe('variable');
    expect(await passwordFor('postgres://ann:url@db', files, { PGPASSWORD: 'variable' })).toBe('url');
    expect(await passwordFor('postgres://ann:@db', files, { PGPASSWORD: '' })).toBe('file');
  });

  test('can have another name', async () => {
    const path = join(await temporaryDirectory(), 'passwords');
    await writeFile(path, '*:*:*:*:other', { mode: 0o600 });
    expect(await passwordFor('postgres://db', {}, { PGPASSFILE: path })).toBe('other');
    expect(await passwordFor(`postgres://db?passfile=${path}`)).toBe('other');
  });

  test('is ignored with a warning if other users can read it or if it is not a file', async () => {
    const directory = await temporaryDirectory();
    const path = join(directory, 'passwords');
    await writeFile(path, '*:*:*:*:secret');
    await chmod(path, 0o640);
    const { warnings } = await settingsFor('postgres://db', {}, { PGPASSFILE: path });
    expect(warnings).toEqual([
      expect.stringMatching(/passwords is ignored: its mode lets other users read it/),
    ]);
    const second = await settingsFor('postgres://db', {}, { PGPASSFILE: directory });
    expect(second.warnings).toEqual([expect.stringMatching(/is not a plain file/)]);
    await expect(passwordFor('postgres://db', {}, { PGPASSFILE: path })).rejects.toMatchObject({
      message: expect.stringContaining('asks for a password of the user ann'),
      hint: expect.stringContaining(`its mode lets other users read it. Make it private: chmod 600 ${path}`),
    });
  });
});

describe('the settings of a connection', () => {
  test('have the driver’s names', async () => {
    const { attempts, warnings } = await settingsFor(
      'postgres://bob@db:5433/shop?application_name=till&connect_timeout=5&sslmode=disable&options=-c%20work_mem%3D1MB',
    );
    expect(warnings).toEqual([]);
    expect(attempts).toEqual([
      {
        host: 'db',
        port: 5433,
        user: 'bob',
        database: 'shop',
        password: expect.any(Function),
        application_name: 'till',
        options: '-c work_mem=1MB',
        keepAlive: true,
        sslnegotiation: 'postgres',
        ssl: false,
      },
    ]);
  });

  test('use the socket of a server on the port if there is one', async () => {
    const [first, second] = [await temporaryDirectory(), await temporaryDirectory()];
    expect(await findSocketDirectory(5433, [first, second])).toBeUndefined();
    await writeFile(join(second, '.s.PGSQL.5433'), '');
    expect(await findSocketDirectory(5433, [first, second])).toBe(second);
    expect(await findSocketDirectory(5434, [first, second])).toBeUndefined();
  });

  /** For each attempt: without TLS, with TLS, with a verified certificate, or also with a verified host name. */
  const kinds = async (query: string, files: Record<string, string> = {}): Promise<string[]> => {
    const { attempts } = await settingsFor(`postgres://db?${query}`, files);
    return attempts.map(({ ssl }) => {
      if (typeof ssl !== 'object') return 'plain';
      if (!ssl.rejectUnauthorized) return 'unverified';
      return ssl.checkServerIdentity ? 'authority' : 'host name';
    });
  };
  test.each<[query: string, without: string[], withRoot: string[]]>([
    ['sslmode=disable', ['plain'], ['plain']],
    ['sslmode=allow', ['plain', 'unverified'], ['plain', 'authority']],
    ['', ['unverified', 'plain'], ['authority', 'plain']],
    ['sslmode=prefer', ['unverified', 'plain'], ['authority', 'plain']],
    ['sslmode=require', ['unverified'], ['authority']],
    ['channel_binding=require', ['unverified'], ['authority']],
    [`sslmode=require&sslrootcert=${AUTHORITY}`, ['authority'], ['authority']],
    [`sslmode=verify-ca&sslrootcert=${AUTHORITY}`, ['authority'], ['authority']],
    [`sslmode=verify-full&sslrootcert=${AUTHORITY}`, ['host name'], ['host name']],
    ['sslrootcert=system', ['host name'], ['host name']],
    ['sslmode=require&host=/tmp', ['plain'], ['plain']],
  ])('%s: %j, and with ~/.postgresql/root.crt %j', async (query, without, withRoot) => {
    expect(await kinds(query)).toEqual(without);
    expect(await kinds(query, { '.postgresql/root.crt': await readFile(AUTHORITY, 'utf8') })).toEqual(
      withRoot,
    );
  });

  test.each<[query: string, message: RegExp, files?: Record<string, string>]>([
    ['sslmode=verify-ca', /needs the certificate of an authority, and .*root\.crt does not exist/],
    ['sslmode=verify-full', /needs the certificate of an authority/],
    ['sslmode=require&sslrootcert=/none', /cannot read \/none \(ENOENT\)/],
    ['sslcert=/none', /cannot read \/none/],
    [`sslcert=${AUTHORITY}&sslkey=/none`, /cannot read \/none/],
    ['sslmode=require', /cannot use .*root\.crt/, { '.postgresql/root.crt': 'no certificate' }],
    [
      'sslmode=require',
      /cannot use .*postgresql\.crt/,
      { '.postgresql/postgresql.crt': 'x', '.postgresql/postgresql.key': 'y' },
    ],
    ['sslmode=require', /cannot read .*postgresql\.key/, { '.postgresql/postgresql.crt': 'x' }],
  ])('%s is refused: %s', async (query, message, files) => {
    const error = await settingsFor(`postgres://db?${query}`, files).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(StoreError);
    expect(error).toMatchObject({
      message: expect.stringMatching(message),
      hint: expect.stringMatching(/ssl/),
    });
  });

  test('contain no private key that other users can read', async () => {
    const key = join(await temporaryDirectory(), 'key');
    await writeFile(key, 'key');
    await chmod(key, 0o644);
    const error = settingsFor(`postgres://db?sslcert=${AUTHORITY}&sslkey=${key}`);
    await expect(error).rejects.toThrow(`other users can read the private key ${key}`);
  });

  test('do not need certificates without TLS', async () => {
    expect(await kinds('sslmode=disable&sslrootcert=/none&sslcert=/none')).toEqual(['plain']);
  });

  test('use the driver’s channel binding with TLS only', async () => {
    const binding = async (query: string) =>
      (await settingsFor(`postgres://db?${query}`)).attempts.map((each) =>
        Boolean(each.enableChannelBinding),
      );
    expect(await binding('')).toEqual([true, false]);
    expect(await binding('channel_binding=disable')).toEqual([false, false]);
    expect((await settingsFor('postgres://db?channel_binding=require')).requiresChannelBinding).toBe(true);
  });
});

describe('another attempt with or without TLS', () => {
  const withCode = (code: string, message = 'x') => Object.assign(new Error(message), { code });
  const fromServer = (code: string) => Object.assign(new DatabaseError('x', 1, 'error'), { code });
  test.each<[what: string, error: unknown, expected: boolean]>([
    ['a server without TLS', new Error('The server does not support SSL connections'), true],
    ['a certificate that is not valid', withCode('SELF_SIGNED_CERT_IN_CHAIN'), true],
    ['another protocol', withCode('ERR_SSL_WRONG_VERSION_NUMBER'), true],
    ['a user that pg_hba.conf refuses', fromServer('28000'), true],
    ['a wrong password', fromServer('28P01'), true],
    ['too many connections', fromServer('53300'), false],
    ['an unknown database', fromServer('3D000'), false],
    ['a server that does not run', withCode('ECONNREFUSED'), false],
    [
      'a server that runs on no address',
      Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' }),
      false,
    ],
    ['a slow server', new Error('timeout expired'), false],
    ['a lost connection', new Error('Connection terminated unexpectedly'), false],
    ['a server that does not know the password', new Error('SASL: the signature does not match'), false],
    ['a missing password', new StoreError('x', 'y'), false],
  ])('after %s', (_, error, expected) => {
    expect(isRefusedBecauseOfTls(error)).toBe(expected);
  });
});
