import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { connectionFor } from '../../src/cli/connection/connect.ts';
import type { CliError } from '../../src/cli/core/errors.ts';
import type { CliErrorCode } from '../../src/cli/core/exit-codes.ts';
import { createRedactor, maskKey } from '../../src/cli/output/text.ts';
import { chooseProfile, isLoopbackUrl, type Profile, parseBaseUrl } from '../../src/cli/profiles/profile.ts';
import type { GlobalOptions } from '../../src/cli/program/command.ts';
import { stateDirectory } from '../helpers/temp.ts';

// Flags, environment variables and files decide which key is sent to which service.

const PROD: Profile = { baseUrl: 'https://prod.example/v1', key: 'prod-key' };
const STAGING: Profile = { baseUrl: 'https://staging.example/v1', key: 'staging-key' };
const KEYLESS: Profile = { baseUrl: 'https://prod.example/v1' };
const HTTP: Profile = { baseUrl: 'http://shop.example/v1', key: 'http-key' };
const PROD_V2 = 'https://prod.example/v2';
const OTHER = 'https://other.example/v1';
const LOOPBACK = 'http://[::1]:7387/v1';
const KEY = { PETS_API_KEY: 'k' };
const FLAG: Given = { profile: 'prod' };
const ENV: Given = { env: { ...KEY, PETS_BASE_URL: OTHER } };
const OTHER_URL: Given = { env: { PETS_BASE_URL: OTHER } };

type Given = {
  profile?: 'prod' | 'staging' | 'local';
  baseUrl?: string;
  env?: Record<string, string>;
  default?: 'prod' | 'staging' | 'local';
  prod?: Profile;
  settings?: object;
};

/** The context of a command, with the files of the profiles. */
function contextOf(given: Given) {
  const { path } = stateDirectory();
  const files = {
    prod: given.prod ?? PROD,
    staging: STAGING,
    settings: given.settings ?? { defaultProfile: given.default },
  };
  for (const [name, value] of Object.entries(files))
    writeFileSync(join(path, `${name}.json`), JSON.stringify(value));
  const { profile, baseUrl } = given;
  const globals = { ...(profile && { profile }), ...(baseUrl !== undefined && { baseUrl }) };
  const env: Record<string, string> = { PETS_CONFIG_DIR: path, ...given.env };
  return { globals: globals as GlobalOptions, env, platform: 'linux', homeDirectory: path } as const;
}

test.each([
  [{}, 'prod'],
  [{ default: 'staging' }, 'staging'],
  [{ default: 'staging', env: { PETS_PROFILE: 'local' } }, 'local'],
  [{ profile: 'prod', default: 'staging', env: { PETS_PROFILE: 'local' } }, 'prod'],
  [{ profile: 'prod', env: { PETS_PROFILE: 'nonsense' } }, 'prod'],
] as [Given, string][])('%j uses profile %s', (given, expected) => {
  expect(chooseProfile(contextOf(given))).toBe(expected);
});

describe('a key is only sent to the service it is for', () => {
  test.each([
    ['the default profile', {}, 'prod-key', PROD.baseUrl],
    ['--profile', { profile: 'staging' }, 'staging-key', STAGING.baseUrl],
    ['PETS_BASE_URL with the same origin', { env: { PETS_BASE_URL: `${PROD_V2}/` } }, 'prod-key', PROD_V2],
    ['empty variables', { env: { PETS_API_KEY: '', PETS_BASE_URL: '' } }, 'prod-key', PROD.baseUrl],
    ['PETS_API_KEY and PETS_BASE_URL', ENV, 'k', OTHER],
    ['these, and settings that cannot be read', { ...ENV, settings: [] }, 'k', OTHER],
    ['PETS_API_KEY alone', { env: KEY }, 'k', PROD.baseUrl],
    ['PETS_API_KEY and --base-url', { baseUrl: OTHER, env: { ...KEY, PETS_PROFILE: 'local' } }, 'k', OTHER],
    ['--profile and PETS_API_KEY', { ...ENV, profile: 'staging' }, 'staging-key', STAGING.baseUrl],
    ['http on this machine', { env: { ...KEY, PETS_BASE_URL: LOOPBACK } }, 'k', LOOPBACK],
    ['PETS_ALLOW_HTTP=1', { prod: HTTP, env: { PETS_ALLOW_HTTP: '1' } }, 'http-key', HTTP.baseUrl],
  ] as [string, Given, string, string][])('%s', (_name, given, key, baseUrl) => {
    expect(connectionFor(contextOf(given))).toMatchObject({ key, baseUrl });
  });

  const LOGIN_THERE = `log in there as profile staging: pets login --profile staging --base-url ${OTHER}`;
  const IN_SCRIPT = '; in a script, set PETS_BASE_URL and PETS_API_KEY';
  test.each<[string, Given, CliErrorCode, message: string, hint?: string]>([
    ['--base-url', { baseUrl: OTHER }, 'usage', 'prod only to https://prod.example', LOGIN_THERE],
    ['PETS_BASE_URL', OTHER_URL, 'usage', `prod only to https://prod.example`, LOGIN_THERE],
    ['PETS_API_KEY, not at its URL', { ...ENV, baseUrl: PROD.baseUrl }, 'usage', 'only to https://other'],
    ['PETS_API_KEY, not at its profile', { baseUrl: OTHER, env: KEY }, 'usage', 'only to https://prod'],
    ['PETS_API_KEY without any URL', { env: { ...KEY, PETS_PROFILE: 'local' } }, 'usage', 'no base URL'],
    ['a profile without a key', { prod: KEYLESS }, 'no_key', 'saved for profile prod', IN_SCRIPT],
    ['profile local', { profile: 'local' }, 'no_key', 'for profile local', 'how to create one: pets serve'],
    [
      '--profile without a key, PETS_API_KEY set',
      { ...FLAG, prod: KEYLESS, env: KEY, baseUrl: OTHER },
      'no_key',
      'saved for profile prod',
      `log in: pets login --profile prod --base-url ${OTHER}. Or start`,
    ],
    ['settings that cannot be read', { settings: [], env: KEY }, 'damaged_file', 'settings.json'],
    ['http to another machine', { prod: HTTP }, 'usage', 'does not use https'],
    ['PETS_ALLOW_HTTP not 1', { prod: HTTP, env: { PETS_ALLOW_HTTP: 'yes' } }, 'usage', 'does not use https'],
    ['a line break', { env: { PETS_API_KEY: 'a\nb' } }, 'bad_key', 'Y contains invalid', 'without "Bearer"'],
  ])('refused: %s', (_name, given, code, message, hint = '') => {
    const error = thrown(() => connectionFor(contextOf(given)));
    expect(error).toMatchObject({ code, message: expect.stringContaining(message) });
    expect(error.hint ?? '').toContain(hint);
    expect(error.hint ?? '').not.toMatch(/-key\b(?!\s*[<])/);
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
  ...[
    'u@a.example/v1',
    ':p@a.example/v1',
    'a.example/v1?a',
    'a.example#a',
    'a.example/v1?',
    'a.example#',
  ].map((rest) => [`https://${rest}`, undefined]),
  ...['ftp://api.example.com/v1', 'javascript:alert(1)', 'api.example.com', ''].map((url) => [
    url,
    undefined,
  ]),
])('base URL %j is normalized to %j', (text = '', expected) => {
  expect(parseBaseUrl(text)).toBe(expected);
});

const own = 'localhost:1 127.0.0.1 127.8.9.1 [::1]:8080 2130706433';
const others = 'localhost.example 127.0.0.1.example 128.0.0.1 0.0.0.0 [::2]';
test.each([
  ...own.split(' ').map((host) => [host, true] as const),
  ...others.split(' ').map((host) => [host, false] as const),
])('%s is this machine: %s', (host, expected) => {
  expect(isLoopbackUrl(new URL(`http://${host}`))).toBe(expected);
});

test('a masked key shows its last four characters, but nothing of a short key', () => {
  expect(['pets_abcdefgh1234', '12345678', '1234567'].map(maskKey)).toEqual(['…1234', '…', '…']);
});

test.each([
  ['sk-1', 'Invalid API key: sk-1.', 'Invalid API key: ….'],
  ['sk-1', 'task-1 and sk-10', 'task-1 and sk-10'],
  ['sk-1234', 'Invalid API key: sk-1234', 'Invalid API key: …'],
  ['', 'Bearer none', 'Bearer none'],
])('the key %j in %j is shown as …', (key, text, expected) => {
  expect(createRedactor(key)(text)).toBe(expected);
});
