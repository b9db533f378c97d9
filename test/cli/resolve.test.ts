import { describe, expect, test } from 'vitest';
import type { CliError } from '../../src/cli/errors/cli-error.ts';
import type { CliErrorCode } from '../../src/cli/errors/error-codes.ts';
import { isLoopback, maskKey, type Profile, parseBaseUrl } from '../../src/cli/profiles/profile.ts';
import { chooseProfile, resolveConnection, type Sources } from '../../src/cli/profiles/resolve.ts';

// Which key goes to which server (design 2): every combination of flags, environment and files.

const PROD: Profile = { baseUrl: 'https://prod.example/v1', key: 'prod-key' };
const STAGING: Profile = { baseUrl: 'https://staging.example/v1', key: 'staging-key' };
const KEYLESS: Profile = { baseUrl: 'https://prod.example/v1' };
const CLEAR: Profile = { baseUrl: 'http://shop.example/v1', key: 'clear-key' };
const OTHER = 'https://other.example/v1';

type Given = {
  profile?: 'prod' | 'staging' | 'local';
  baseUrl?: string;
  env?: Record<string, string>;
  default?: 'prod' | 'staging' | 'local';
  prod?: Profile;
  /** On this machine nobody has logged in yet. */
  isNew?: boolean;
};

function sources(given: Given): Sources {
  const stored: Record<string, Profile> = given.isNew ? {} : { prod: given.prod ?? PROD, staging: STAGING };
  return {
    flags: { profile: given.profile, baseUrl: given.baseUrl },
    env: given.env ?? {},
    defaultProfile: given.default,
    readProfile: (name) => stored[name],
  };
}

test.each([
  [{}, 'prod'],
  [{ default: 'staging' }, 'staging'],
  [{ default: 'staging', env: { PETS_PROFILE: 'local' } }, 'local'],
  [{ default: 'staging', env: { PETS_PROFILE: '' } }, 'staging'],
  [{ profile: 'prod', default: 'staging', env: { PETS_PROFILE: 'local' } }, 'prod'],
  [{ profile: 'prod', env: { PETS_PROFILE: 'nonsense' } }, 'prod'],
] as [Given, string][])('%j means profile %s', (given, expected) => {
  expect(chooseProfile(sources(given))).toBe(expected);
});

describe('a key goes only where it belongs', () => {
  test.each([
    ['the default profile', {}, 'prod-key', PROD.baseUrl],
    ['another default', { default: 'staging' }, 'staging-key', STAGING.baseUrl],
    ['--profile', { profile: 'staging' }, 'staging-key', STAGING.baseUrl],
    ['PETS_PROFILE', { env: { PETS_PROFILE: 'staging' } }, 'staging-key', STAGING.baseUrl],
    [
      '--base-url at the same origin',
      { baseUrl: 'https://prod.example/v2' },
      'prod-key',
      'https://prod.example/v2',
    ],
    ['its port spelt out', { baseUrl: 'https://prod.example:443/v1' }, 'prod-key', PROD.baseUrl],
    [
      'PETS_BASE_URL at the same origin',
      { env: { PETS_BASE_URL: 'https://prod.example/v2/' } },
      'prod-key',
      'https://prod.example/v2',
    ],
    ['PETS_API_KEY and its PETS_BASE_URL', { env: { PETS_API_KEY: 'k', PETS_BASE_URL: OTHER } }, 'k', OTHER],
    ['PETS_API_KEY at the default profile', { env: { PETS_API_KEY: 'k' } }, 'k', PROD.baseUrl],
    [
      'PETS_API_KEY at PETS_PROFILE',
      { env: { PETS_API_KEY: 'k', PETS_PROFILE: 'staging' } },
      'k',
      STAGING.baseUrl,
    ],
    [
      'PETS_API_KEY and --base-url, where nothing is stored',
      { baseUrl: OTHER, env: { PETS_API_KEY: 'k', PETS_PROFILE: 'local' } },
      'k',
      OTHER,
    ],
    [
      'PETS_API_KEY that is empty',
      { env: { PETS_API_KEY: '', PETS_BASE_URL: '' } },
      'prod-key',
      PROD.baseUrl,
    ],
    [
      '--profile before PETS_API_KEY',
      { profile: 'staging', env: { PETS_API_KEY: 'k', PETS_BASE_URL: OTHER } },
      'staging-key',
      STAGING.baseUrl,
    ],
    [
      'loopback without encryption',
      { env: { PETS_API_KEY: 'k', PETS_BASE_URL: 'http://[::1]:7387/v1' } },
      'k',
      'http://[::1]:7387/v1',
    ],
    ['PETS_ALLOW_HTTP=1', { prod: CLEAR, env: { PETS_ALLOW_HTTP: '1' } }, 'clear-key', CLEAR.baseUrl],
    ['a profile that allows http', { prod: { ...CLEAR, allowHttp: true } }, 'clear-key', CLEAR.baseUrl],
  ] as [string, Given, string, string][])('%s', (_name, given, key, baseUrl) => {
    expect(resolveConnection(sources(given)).connection).toMatchObject({ key, baseUrl });
  });

  test.each([
    [
      '--base-url at another origin',
      { baseUrl: OTHER },
      'usage',
      'profile prod belongs to https://prod.example',
    ],
    [
      'PETS_BASE_URL at another origin',
      { env: { PETS_BASE_URL: OTHER } },
      'usage',
      'is not sent to https://other.example',
    ],
    ['another port', { baseUrl: 'https://prod.example:8443/v1' }, 'usage', 'https://prod.example:8443'],
    ['another protocol', { baseUrl: 'http://prod.example/v1' }, 'usage', 'http://prod.example'],
    [
      '--profile with another --base-url',
      { profile: 'staging', baseUrl: PROD.baseUrl },
      'usage',
      'profile staging belongs',
    ],
    [
      'PETS_API_KEY off its PETS_BASE_URL',
      { baseUrl: PROD.baseUrl, env: { PETS_API_KEY: 'k', PETS_BASE_URL: OTHER } },
      'usage',
      'PETS_API_KEY belongs to https://other.example',
    ],
    [
      'PETS_API_KEY off its profile',
      { baseUrl: OTHER, env: { PETS_API_KEY: 'k' } },
      'usage',
      'PETS_API_KEY belongs to https://prod.example',
    ],
    [
      'PETS_API_KEY without any URL',
      { env: { PETS_API_KEY: 'k', PETS_PROFILE: 'local' } },
      'usage',
      'no base URL',
    ],
    ['a profile without a key', { prod: KEYLESS }, 'no_key', 'no key is saved for profile prod'],
    ['a profile that is not there', { profile: 'local' }, 'no_key', 'no key is saved for profile local'],
    [
      '--profile without a key, PETS_API_KEY set',
      { profile: 'prod', prod: KEYLESS, env: { PETS_API_KEY: 'k' } },
      'no_key',
      'no key',
    ],
    ['http to another machine', { prod: CLEAR }, 'usage', 'is not encrypted'],
    [
      'PETS_ALLOW_HTTP that is not 1',
      { prod: CLEAR, env: { PETS_ALLOW_HTTP: 'yes' } },
      'usage',
      'is not encrypted',
    ],
    [
      'PETS_API_KEY over http',
      { env: { PETS_API_KEY: 'k', PETS_BASE_URL: CLEAR.baseUrl } },
      'usage',
      'is not encrypted',
    ],
    [
      'allowHttp of another origin',
      {
        prod: { ...CLEAR, allowHttp: true },
        env: { PETS_API_KEY: 'k', PETS_BASE_URL: 'http://other.example/v1' },
      },
      'usage',
      'is not encrypted',
    ],
    ['a key with a line end', { env: { PETS_API_KEY: 'a\nb' } }, 'bad_key', 'PETS_API_KEY has characters'],
    ['a base URL that is empty', { baseUrl: '' }, 'usage', '--base-url must be'],
    ['PETS_PROFILE that is none', { env: { PETS_PROFILE: 'Prod' } }, 'usage', 'not "Prod"'],
  ] as [string, Given, CliErrorCode, string][])('refused: %s', (_name, given, code, says) => {
    const error = thrown(() => resolveConnection(sources(given)));
    expect(error).toMatchObject({ code, message: expect.stringContaining(says) });
    expect(error.hint ?? '').not.toMatch(/-key\b(?!\s*[<])/);
  });

  test.each([
    [
      'nobody has logged in yet',
      { isNew: true },
      'log in: pets login; or try it with sample animals on this machine: pets serve --seed',
    ],
    ['logged out', { prod: KEYLESS }, 'log in: pets login'],
    [
      'named by --profile',
      { profile: 'staging', isNew: true },
      'log in: pets login --profile staging; or try',
    ],
    ['profile local', { profile: 'local' }, 'start the local service: pets serve --seed'],
    [
      'PETS_BASE_URL alone',
      { isNew: true, env: { PETS_BASE_URL: OTHER } },
      `set PETS_API_KEY as well, to the key for ${OTHER}`,
    ],
    ['PETS_BASE_URL elsewhere', { prod: PROD, env: { PETS_BASE_URL: OTHER } }, 'or unset PETS_BASE_URL'],
    ['--base-url elsewhere', { prod: PROD, baseUrl: OTHER }, `pets login --profile prod --base-url ${OTHER}`],
  ] as [string, Given, string][])('without a key, or with one of another place: %s', (_name, given, hint) => {
    expect(thrown(() => resolveConnection(sources(given))).hint).toContain(hint);
  });

  test('an empty PETS_API_KEY is none, and that is told', () => {
    const { connection, notices } = resolveConnection(sources({ env: { PETS_API_KEY: '' } }));
    expect(connection.key).toBe(PROD.key);
    expect(notices).toEqual(['PETS_API_KEY is empty: the key of profile prod is used']);
  });

  test.each([
    [{ PETS_API_KEY: 'k' }, ['--profile prod is used: PETS_API_KEY ignored']],
    [{ PETS_BASE_URL: OTHER }, ['--profile prod is used: PETS_BASE_URL ignored']],
    [
      { PETS_API_KEY: 'k', PETS_BASE_URL: OTHER },
      ['--profile prod is used: PETS_API_KEY and PETS_BASE_URL ignored'],
    ],
    [{ PETS_API_KEY: '' }, []],
    [{}, []],
  ] as [Record<string, string>, string[]][])('--profile ignores %j and says so', (env, notices) => {
    expect(resolveConnection(sources({ profile: 'prod', env })).notices).toEqual(notices);
  });
});

function thrown(run: () => unknown): CliError {
  try {
    run();
  } catch (error) {
    return error as CliError;
  }
  throw new Error('nothing was thrown');
}

test.each([
  ['https://api.example.com/v1', 'https://api.example.com/v1'],
  ['https://API.example.com:443/v1///', 'https://api.example.com/v1'],
  ['http://127.0.0.1:7387/v1', 'http://127.0.0.1:7387/v1'],
  ['https://u@api.example.com/v1', undefined],
  ['https://:p@api.example.com/v1', undefined],
  ['https://api.example.com/v1?a', undefined],
  ['https://api.example.com/v1#a', undefined],
  ['ftp://api.example.com/v1', undefined],
  ['javascript:alert(1)', undefined],
  ['api.example.com', undefined],
  ['', undefined],
])('base URL %j is %j', (text, expected) => {
  expect(parseBaseUrl(text)).toBe(expected);
});

test.each([
  ['http://localhost:1', true],
  ['http://127.0.0.1', true],
  ['http://127.8.9.1', true],
  ['http://[::1]:8080', true],
  ['http://2130706433', true],
  ['http://localhost.example', false],
  ['http://127.0.0.1.example', false],
  ['http://128.0.0.1', false],
  ['http://0.0.0.0', false],
  ['http://[::2]', false],
])('%s stays on this machine: %s', (url, expected) => {
  expect(isLoopback(new URL(url))).toBe(expected);
});

test('a masked key shows at most its last four characters, and of a short one nothing', () => {
  expect(maskKey('pets_abcdefgh1234')).toBe('…1234');
  expect(maskKey('12345678')).toBe('…');
});
