import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { curlCommand } from '../../src/page/curl.ts';
import { escapeInvisible } from '../../src/page/text.ts';
import { cases } from '../helpers/cases.ts';
import { hostileTexts } from '../helpers/hostile-text.ts';

const ORIGIN = 'http://127.0.0.1:7387';

const request = (
  method: string,
  url: string,
  headers: Record<string, string> = {},
  body?: string,
  cutOff?: true,
) => ({
  method,
  url,
  request: {
    headers,
    bodyBytes: body?.length ?? 0,
    ...(body !== undefined && { body }),
    ...(cutOff && { cutOff }),
  },
});

/** The words of a command for curl, as a shell reads them. */
function wordsOf(command = ''): string[] {
  const { stdout, stderr } = spawnSync('sh', ['-c', `curl() { printf '%s\\0' "$@"; }\n${command}`], {
    env: { PETS_API_KEY: 'the key' },
  });
  expect(stderr.toString()).toBe('');
  return stdout.toString().split('\0').slice(0, -1);
}

describe.skipIf(process.platform === 'win32')('the command for curl', () => {
  test.each([
    ['a list', request('GET', '/v1/pets?limit=5'), ['http://127.0.0.1:7387/v1/pets?limit=5']],
    ['HEAD', request('HEAD', '/v1/pets'), ['-I', 'http://127.0.0.1:7387/v1/pets']],
    ['another method', request('DELETE', '/v1/pets'), ['-X', 'DELETE', 'http://127.0.0.1:7387/v1/pets']],
    [
      'the key',
      request('GET', '/', { authorization: '[redacted]' }),
      ['-H', 'Authorization: Bearer the key', 'http://127.0.0.1:7387/'],
    ],
    [
      'headers, except those of the connection',
      request('GET', '/', { host: 'x', connection: 'close', 'content-length': '1', a: "it's $(id)", b: '' }),
      ['-H', "a: it's $(id)", '-H', 'b;', 'http://127.0.0.1:7387/'],
    ],
    [
      'a body without a type',
      request('POST', '/v1/pets', {}, '@/etc/passwd'),
      ['-H', 'Content-Type:', '--data-raw', '@/etc/passwd', 'http://127.0.0.1:7387/v1/pets'],
    ],
    [
      'a body of a GET request',
      request('GET', '/', { 'content-type': 'a/b' }, '{}'),
      ['-X', 'GET', '-H', 'content-type: a/b', '--data-raw', '{}', 'http://127.0.0.1:7387/'],
    ],
    [
      'bytes in the target',
      request('GET', "/v1/pets?a='\u00fc\u0080"),
      ["http://127.0.0.1:7387/v1/pets?a='%FC%80"],
    ],
    [
      'line ends, tabs and the joiners of emoji in a body',
      request('POST', '/', { 'content-type': 'a/b' }, '{\n\t"name": "👨‍👩‍👧"\n}'),
      ['-H', 'content-type: a/b', '--data-raw', '{\n\t"name": "👨‍👩‍👧"\n}', 'http://127.0.0.1:7387/'],
    ],
    [
      'a target with an origin',
      request('GET', 'http://shop.example/v1/pets'),
      ['http://127.0.0.1:7387/v1/pets'],
    ],
  ])('has %s', (_name, recorded, words) => {
    const { command, notes } = curlCommand(recorded, ORIGIN);
    expect(notes).toEqual([]);
    expect(wordsOf(command)).toEqual(['-g', '--path-as-is', ...words]);
  });

  test('sends a body unchanged, or does not exist if a terminal could interpret the body', () => {
    fc.assert(
      fc.property(
        hostileTexts.filter((text) => text !== ''),
        (text) => {
          const body = Buffer.from(text).toString();
          const recorded = request('POST', '/v1/pets', { 'content-type': 'a/b' }, body);
          const { command, notes } = curlCommand(recorded, ORIGIN);
          if (command === undefined) expect(notes).toEqual([expect.stringContaining('cannot be pasted')]);
          else {
            expect(escapeInvisible(command)).toBe(command);
            const words = wordsOf(command);
            expect(words[words.indexOf('--data-raw') + 1]).toBe(body);
          }
        },
      ),
      { numRuns: cases(100) },
    );
  });
});

test.each([
  [
    'a body that was cut off',
    request('POST', '/', {}, 'x', true),
    'The body is cut off: only its beginning is recorded.',
  ],
  ['a secret', request('GET', '/v1/pets?key=[redacted]'), 'Put the secret in the place of [redacted] first.'],
  [
    'the key of a request that was refused',
    { ...request('GET', '/', { authorization: '[redacted]' }), status: 401 },
    'The Authorization header was refused: the command sends your $PETS_API_KEY instead.',
  ],
  ['a cookie', request('GET', '/', { cookie: '[redacted]' }), 'The header cookie is left out.'],
  ['a header with control characters', request('GET', '/', { a: '\x1b[2J' }), 'The header a is left out.'],
  ['a header with bytes in Latin-1', request('GET', '/', { a: 'M\u00fcller' }), 'The header a is left out.'],
  ['bytes that are not HTTP', request('-', '-'), 'curl cannot repeat this request.'],
  ['a target that is not a path', request('OPTIONS', '*'), 'curl cannot repeat this request.'],
])('the command for curl says that it cannot repeat %s', (_name, recorded, note) => {
  expect(curlCommand(recorded, ORIGIN).notes).toEqual([note]);
});
