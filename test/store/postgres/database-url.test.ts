import { describe, expect, test } from 'vitest';
import { StoreError } from '../../../src/store/errors.ts';
import { parseDatabaseTarget } from '../../../src/store/postgres/connect/database-url.ts';
import { cases } from '../../helpers/cases.ts';

type Env = Record<string, string>;

/** Parses a URL for the user ann of the operating system. */
const parse = (url: string, env: Env = {}) => parseDatabaseTarget(url, { env, userName: 'ann' });

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
    ['postgres://', 'postgres://ann@localhost/ann'],
    ['postgresql://', 'postgres://ann@localhost/ann'],
    ['postgres:///shop', 'postgres://ann@localhost/shop'],
    ['postgres://bob:secret@db.example:5433/shop', 'postgres://bob@db.example:5433/shop'],
    ['postgres://[::1]:5433/shop', 'postgres://ann@[::1]:5433/shop'],
    ['postgres://[fe80::1%25eth0]/shop', 'postgres://ann@[fe80::1%25eth0]/shop'],
    ['postgres:///shop?host=/var/run/pg', 'postgres://ann@%2Fvar%2Frun%2Fpg/shop'],
    ['postgres://%2Fvar%2Frun%2Fpg:5433/shop', 'postgres://ann@%2Fvar%2Frun%2Fpg:5433/shop'],
    ['postgres://db/a%2Fb%40c%20d', 'postgres://ann@db/a/b%40c%20d'],
    ['postgres://%C3%A4nn@db/caf%C3%A9', 'postgres://%C3%A4nn@db/caf%C3%A9'],
    [
      'postgres://db/shop?prepare=off&sslmode=verify-full&sslrootcert=/etc/ca.pem',
      'postgres://ann@db/shop?sslmode=verify-full&sslrootcert=/etc/ca.pem&prepare=off',
    ],
    ['postgres://db/?options=-c%20a%3Db%26c', 'postgres://ann@db/ann?options=-c%20a%3Db%26c'],
    // As hosting services show it
    [
      'postgresql://user:pw@ep-x.aws.neon.tech/db?sslmode=require&channel_binding=require',
      'postgres://user@ep-x.aws.neon.tech/db?sslmode=require&channel_binding=require',
    ],
    ['POSTGRES://db/shop', 'postgres://ann@db/shop'],
    ['PostgreSQL://Bob@DB/Shop', 'postgres://Bob@DB/Shop'],
    [
      'postgres://db/shop?connect_timeout=10&keepalives_idle=5&gssencmode=disable',
      'postgres://ann@db/shop?gssencmode=disable',
    ],
    ['postgres://db/shop?port=5433', 'postgres://ann@db:5433/shop'],
    // Several hosts
    [
      'postgres://h1:5432,h2:5433/shop?target_session_attrs=read-write',
      'postgres://ann@h1,h2:5433/shop?target_session_attrs=read-write',
    ],
    ['postgres://x:5434/shop?host=/tmp%2Fpg', 'postgres://ann@%2Ftmp%2Fpg:5434/shop'],
    ['postgres://[::1]:5433,[fe80::1],10.0.0.1/shop', 'postgres://ann@[::1]:5433,[fe80::1],10.0.0.1/shop'],
    ['postgres://', 'postgres://ann@h1:5433,h2:5433/ann', { PGHOST: 'h1,h2', PGPORT: '5433' }],
    [
      'postgres://h1,h2',
      'postgres://ann@h1,h2/ann?target_session_attrs=primary',
      { PGTARGETSESSIONATTRS: 'primary' },
    ],
    // Environment variables
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
      'postgres://ann@localhost/ann',
      { PGHOST: '', PGPORT: '', PGUSER: '', PGDATABASE: '', PGPASSWORD: '', PGSSLMODE: '', PGSERVICE: '' },
    ],
  ])('%s is %s', (url, place, env) => {
    const target = parse(url, env);
    expect(target.place).toBe(place);
    // The place can be used again, and does not depend on the environment.
    expect(parse(place).place).toBe(place);
    expect(parse(place)).toMatchObject({ hosts: target.hosts, user: target.user, database: target.database });
  });

  test.each<[url: string, message: RegExp, hint?: RegExp, env?: Env]>([
    ['mysql://db/shop', /URL is not valid/, /postgres:\/\/user@host/],
    ['postgres:/db', /URL is not valid/],
    ['postgres://[::1/shop', /URL is not valid/],
    ['postgres://::1/shop', /port of the database/],
    ['postgres://%zz@db', /URL is not valid/],
    ['postgres://db:65536/shop', /port of the database/],
    ['postgres://db', /port of the database/, /:5432/, { PGPORT: '-1' }],
    ['postgres://db/shop', /hosts and ports .* differ/, /one port for each host/, { PGPORT: '1,2' }],
    ['postgres://h1,h2/shop?target_session_attrs=any', /target_session_attrs/, /read-write or primary/],
    ['postgres://h1', /PGTARGETSESSIONATTRS/, /primary/, { PGTARGETSESSIONATTRS: 'prefer-standby' }],
    ['postgres://db/shop?sslmod=require', /the parameter sslmod .*not supported/, /sslmode, .* or prepare/],
    ['postgres://db/shop?host%00=true', /URL is not valid/],
    ['postgres://db/shop?%20%0a=true', /^a parameter of the database URL/],
    ['postgres://ann:a@db/shop?b=c', /^the parameter b of the database URL/],
    ['postgres://db/shop?sslmode', /URL is not valid/],
    ['postgres://db/shop?options=a=b', /URL is not valid/, /= in a parameter as %3D/],
    [
      'postgres://db/shop?sslmode=full',
      /sslmode \(or PGSSLMODE\)/,
      /disable, require, verify-ca or verify-full/,
    ],
    ['postgres://db/shop?sslmode=prefer', /sslmode/],
    ['postgres://db', /sslmode \(or PGSSLMODE\)/, /disable/, { PGSSLMODE: 'prefer' }],
    ['postgres://db?sslmode=verify-ca', /needs sslrootcert, the certificate of the authority/, /sslrootcert/],
    ['postgres://db/shop?prepare=false', /prepare/, /on or off/],
    ['postgres://db?sslmode=allow', /sslmode/, /disable, require/],
    ['postgres://db?gssencmode=require', /gssencmode \(or PGGSSENCMODE\)/, /use disable or prefer/],
    ['postgres://db?channel_binding=yes', /channel_binding/, /disable, prefer or require/],
    ['postgres://db?service=shop', /the parameter service/, /copy the entry of pg_service.conf into the URL/],
    ['postgres://db', /PGSERVICE/, /copy the entry of pg_service.conf into the URL/, { PGSERVICE: 'shop' }],
    ...['hostaddr', 'password', 'sslcrl', 'require_auth', 'ssl', 'conect_timeout'].map(
      (name): [string, RegExp, RegExp] => [
        `postgres://db?${name}=1`,
        new RegExp(`the parameter ${name} .*not supported`),
        /remove it; .* can contain host, /,
      ],
    ),
    ...['PGHOSTADDR', 'PGREQUIREAUTH', 'PGREQUIREPEER', 'PGREQUIRESSL', 'PGSSLCRL'].map(
      (name): [string, RegExp, RegExp, Env] => [
        'postgres://db',
        new RegExp(`variable ${name} is not supported`),
        /unset/,
        { [name]: 'x' },
      ],
    ),
  ])('%s is refused: %s', (url, message, hint = /./, env) => {
    const error = errorOf(() => parse(url, env));
    expect(error.message).toMatch(message);
    expect(error.hint).toMatch(hint);
  });

  test('needs a user if the operating system has no name for it', () => {
    const environment = { env: {}, userName: undefined };
    expect(errorOf(() => parseDatabaseTarget('postgres://db/shop', environment)).message).toMatch(/no user/);
    expect(parseDatabaseTarget('postgres://bob@db', environment).place).toBe('postgres://bob@db/bob');
  });

  test('with prepare=off has no prepared statements', () => {
    expect(parse('postgres://db').prepare).toBe(true);
    expect(parse('postgres://db?prepare=off').prepare).toBe(false);
  });

  test.each<[url: string, ...modes: string[]]>([
    ['postgres://', 'disable'],
    ['postgres://[::1]', 'disable'],
    ['postgres://%2Ftmp', 'disable'],
    ['postgres://db.example', 'require'],
    ['postgres://[fe80::1]', 'require'],
    ['postgres://127.0.0.1,db.example', 'disable', 'require'],
    ['postgres://localhost,db.example?sslmode=verify-full', 'verify-full', 'verify-full'],
    ['postgres://db.example?sslmode=disable', 'disable'],
    ['postgres://%2Ftmp,db.example?sslmode=require', 'disable', 'require'],
  ])('%s has sslmode %s %s', (url, ...modes) => {
    expect(parse(url).hosts.map(({ sslmode }) => sslmode)).toEqual(modes.filter(Boolean));
  });

  test.each([
    ['postgres://ann:p%40ss@db', 'p@ss'],
    ['postgres://ann:a?b#c@db', 'a?b#c'],
    ['postgres://ann:a,b@h1,h2', 'a,b'],
    ['postgres://ann:@db', 'not in the URL'],
    ['postgres://ann@db', 'not in the URL'],
  ])('%s has the password %j', (url, password) => {
    expect(parse(url, { PGPASSWORD: 'not in the URL' }).parameters.password).toBe(password);
  });
});

/** Text that is not in any message, so that a test can find a part of a password. */
const PARTS = ['Zq7', 'Xw9', 'Kj4'];
const SEPARATORS = [..."@/:%#?&=,[] \n\\'ä🐈\u202e", '%zz', '%00'];

describe('a password', () => {
  const random = (n: number): number => Math.floor(Math.random() * n);
  const randomPassword = (): string =>
    PARTS.map(
      (part) =>
        part + Array.from({ length: random(4) }, () => SEPARATORS[random(SEPARATORS.length)]).join(''),
    ).join('');
  const hasPart = (text: string): boolean => PARTS.some((part) => text.includes(part));

  test('that is percent-encoded is decoded, and is not in the place', () => {
    for (let i = 0; i < cases(500); i++) {
      const password = randomPassword();
      const encoded = encodeURIComponent(password);
      const target = parse(`postgres://bob:${encoded}@h1,h2/shop`);
      expect(target.parameters.password).toBe(password);
      expect(target.place).toBe('postgres://bob@h1,h2/shop');
    }
  });

  test('that is not percent-encoded is neither in the place nor in a message', () => {
    for (let i = 0; i < cases(20_000); i++) {
      const password = randomPassword();
      const url =
        [
          `postgres://bob:${password}@db/shop`,
          `postgres://bob:${password}@db:5432,db2/shop?sslmode=require`,
          `postgres://bob@db/shop?password=${password}`,
          `postgres://bob@db/shop?sslpassword=${password}`,
          `postgresql:/bob:${password}@db/shop`,
        ][i % 5] ?? '';
      let shown: string;
      try {
        const { place, hosts, database, user } = parse(url);
        shown = [place, JSON.stringify(hosts), database, user].join(' ');
      } catch (error) {
        const { message, hint, stack = '', cause } = error as StoreError;
        expect(error).toBeInstanceOf(StoreError);
        shown = [message, hint, stack, String(cause)].join(' ');
      }
      expect(hasPart(shown), `${url} → ${shown}`).toBe(false);
    }
  });
});
