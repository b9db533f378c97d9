import { describe, expect, test } from 'vitest';
import { StoreError } from '../../../src/store/errors.ts';
import { parseDatabaseTarget } from '../../../src/store/postgres/connector.ts';
import { cases } from '../../helpers/cases.ts';

type Env = Record<string, string>;

/** Parses a URL for the user ann of the operating system. */
const parse = (url: string, env: Env = {}) => parseDatabaseTarget(url, { env, userName: 'ann' });

/** The error of a function that must fail. */
function errorOf(run: () => unknown): StoreError {
  try {
    run();
  } catch (error) {
    return error as StoreError;
  }
  throw new Error('no error');
}

describe('a database URL', () => {
  test.each<[url: string, expected: string, parameters?: object]>([
    ['postgres://', 'ann localhost:5432 ann'],
    ['postgres:///shop', 'ann localhost:5432 shop'],
    ['postgres://bob:secret@db.example:5433/shop', 'bob db.example:5433 shop'],
    ['postgres://[::1]:5433/shop', 'ann ::1:5433 shop'],
    ['postgres://[fe80::1%25eth0]/shop', 'ann fe80::1%eth0:5432 shop'],
    ['postgres://%2Fvar%2Frun%2Fpg:5433/shop', 'ann /var/run/pg:5433 shop'],
    ['postgres://%C3%A4nn@db/caf%C3%A9', 'änn db:5432 café'],
    ['postgres://db/shop?prepare=off', 'ann db:5432 shop', { prepare: 'off' }],
    ['postgres://db/?options=-c%20a%3Db%26c', 'ann db:5432 ann', { options: '-c a=b&c' }],
    // As hosting services show it
    [
      'postgresql://user:pw@ep-x.aws.neon.tech/db?sslmode=require&channel_binding=require',
      'user ep-x.aws.neon.tech:5432 db',
      { sslmode: 'require', channel_binding: 'require' },
    ],
    ['PostgreSQL://Bob@DB/Shop', 'Bob DB:5432 Shop'],
    ['postgres://db/shop?connect_timeout=10&keepalives_idle=5&gssencmode=disable', 'ann db:5432 shop', {}],
    ['postgres://db/shop?port=5433', 'ann db:5433 shop'],
    // Several hosts
    ['postgres://h1:5432,h2:5433/shop?target_session_attrs=read-write', 'ann h1:5432 h2:5433 shop', {}],
    ['postgres://x:5434/shop?host=/tmp%2Fpg', 'ann /tmp/pg:5434 shop'],
    ['postgres://[::1]:5433,[fe80::1],10.0.0.1/shop', 'ann ::1:5433 fe80::1:5432 10.0.0.1:5432 shop'],
    ['postgres:///shop?host=h1,h2&port=5433', 'ann h1:5433 h2:5433 shop'],
  ])('%s is %s', (url, expected, parameters = expect.anything()) => {
    const target = parse(url);
    const hosts = target.hosts.map(({ name, port }) => `${name}:${port}`);
    expect([target.user, ...hosts, target.database].join(' ')).toBe(expected);
    expect(target.parameters).toEqual(parameters);
    expect(target.place).toBe(url.replace(/:(secret|pw)@/, '@'));
  });

  test('says everything: the variables of libpq are not read', () => {
    const env = {
      PGHOST: 'h',
      PGPORT: '1',
      PGUSER: 'u',
      PGDATABASE: 'd',
      PGOPTIONS: '-c a=b',
      PGSSLMODE: '',
    };
    expect(parse('postgres://db', env)).toEqual(parse('postgres://db'));
  });

  test.each(['PGSSLMODE', 'PGSSLROOTCERT', 'PGSSLCERT', 'PGSSLKEY', 'PGCHANNELBINDING'])(
    'is refused if it lacks what %s demands',
    (name) => {
      const parameter = name === 'PGCHANNELBINDING' ? 'channel_binding' : name.slice(2).toLowerCase();
      const error = errorOf(() => parse('postgres://db', { [name]: 'require' }));
      expect(error.message).toContain(`variable ${name} is not supported`);
      expect(error.hint).toContain('unset it; instead, ');
      expect(() => parse(`postgres://db?${parameter}=require`, { [name]: 'disable' })).not.toThrow();
    },
  );

  test.each<[url: string, message: RegExp, hint?: RegExp, env?: Env]>([
    ['mysql://db/shop', /URL is not valid/, /postgres:\/\/user@host/],
    ['postgres:/db', /URL is not valid/],
    ['postgres://[::1/shop', /URL is not valid/],
    ['postgres://db:65536/shop', /port of the database/],
    ['postgres://db?port=-1', /port of the database/, /:5432/],
    ['postgres://db/shop?port=1,2', /hosts and ports .* differ/, /one port for each host/],
    ['postgres://db/shop?sslmod=require', /the parameter sslmod .*not supported/, /sslmode, .* or prepare/],
    ['postgres://db/shop?%20%0a=true', /^a parameter of the database URL/],
    ['postgres://db/shop?options=a=b', /URL is not valid/, /= in a parameter as %3D/],
    [
      'postgres://db/shop?sslmode=full',
      /value of sslmode in the database URL/,
      /disable, require, verify-ca or verify-full/,
    ],
    ['postgres://db?sslmode=verify-ca', /needs sslrootcert, the certificate of the authority/, /sslrootcert/],
    ...[
      'gssencmode',
      'service',
      'hostaddr',
      'password',
      'sslcrl',
      'require_auth',
      'target_session_attrs',
    ].map((name): [string, RegExp] => [
      `postgres://db?${name}=require`,
      new RegExp(`the parameter ${name} .*not supported`),
    ]),
    ...['PGSERVICE', 'PGHOSTADDR', 'PGREQUIREAUTH', 'PGREQUIREPEER', 'PGREQUIRESSL', 'PGSSLCRL'].map(
      (name): [string, RegExp, RegExp, Env] => [
        'postgres://db',
        new RegExp(`variable ${name} is not supported`),
        /^unset it; instead, /,
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
    expect(parseDatabaseTarget('postgres://bob@db', environment).database).toBe('bob');
  });

  test.each<[url: string, ...modes: string[]]>([
    ['postgres://[::1]', 'disable'],
    ['postgres://%2Ftmp', 'disable'],
    ['postgres://db.example', 'require'],
    ['postgres://[fe80::1]', 'require'],
    ['postgres://localhost,db.example?sslmode=verify-full', 'verify-full', 'verify-full'],
    ['postgres://db.example?sslmode=disable', 'disable'],
    ['postgres://%2Ftmp,db.example?sslmode=require', 'disable', 'require'],
  ])('%s has sslmode %s %s', (url, ...modes) => {
    expect(parse(url).hosts.map(({ sslmode }) => sslmode)).toEqual(modes.filter(Boolean));
  });

  test.each([
    ['postgres://ann:p%40ss@db', 'p@ss'],
    ['postgres://ann:a,b@h1,h2', 'a,b'],
    ['postgres://ann:@db', 'not in the URL'],
  ])('%s has the password %j', (url, password) => {
    expect(parse(url, { PGPASSWORD: 'not in the URL' }).password).toBe(password);
  });
});

/** Text that is not in any message, so that a test can find a part of a password. */
const PARTS = ['Zq7', 'Xw9', 'Kj4'];
const SEPARATORS = [..."@/:%#?&=,[] \n\\'ä🐈\u202e", '%zz', '%00'];

const random = (n: number): number => Math.floor(Math.random() * n);
const randomPassword = (): string => {
  const separators = () => Array.from({ length: random(4) }, () => SEPARATORS[random(SEPARATORS.length)]);
  return PARTS.map((part) => part + separators().join('')).join('');
};

test('a password that is not percent-encoded is neither in the place nor in a message', () => {
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
      expect(error).toBeInstanceOf(StoreError);
      const { message, hint, stack = '', cause } = error as StoreError;
      shown = [message, hint, stack, String(cause)].join(' ');
    }
    for (const part of PARTS) expect(shown, url).not.toContain(part);
  }
});
