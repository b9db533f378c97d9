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
  const TYPE = { 'content-type': 'a/b' };
  const LINES = '{\n\t"name": "👨‍👩‍👧"\n}';
  test.each<[method: string, headers: Record<string, string>, body: string | undefined, words: string[]]>([
    ['GET', {}, undefined, []],
    ['HEAD', {}, undefined, ['-I']],
    ['DELETE', {}, undefined, ['-X', 'DELETE']],
    ['GET', { authorization: '[redacted]' }, undefined, ['-H', 'Authorization: Bearer the key']],
    ['GET', { host: 'x', connection: 'close', 'content-length': '1' }, undefined, []],
    ['GET', { a: "it's $(id)", b: '' }, undefined, ['-H', "a: it's $(id)", '-H', 'b;']],
    ['POST', {}, '@/etc/passwd', ['-H', 'Content-Type:', '--data-raw', '@/etc/passwd']],
    ['POST', TYPE, LINES, ['-H', 'content-type: a/b', '--data-raw', LINES]],
    ['GET', TYPE, '{}', ['-X', 'GET', '-H', 'content-type: a/b', '--data-raw', '{}']],
  ])('for %s with the headers %j and the body %j repeats the request', (method, headers, body, words) => {
    const { command, notes } = curlCommand(request(method, '/v1/pets', headers, body), ORIGIN);
    expect(notes).toEqual([]);
    expect(wordsOf(command)).toEqual(['-g', '--path-as-is', ...words, `${ORIGIN}/v1/pets`]);
  });

  test.each([
    ["/v1/pets?a='\u00fc\u0080", "/v1/pets?a='%FC%80"],
    ['http://shop.example/v1/pets', '/v1/pets'],
  ])('for the target %j has a valid URL of the service', (target, url) => {
    expect(wordsOf(curlCommand(request('GET', target), ORIGIN).command).at(-1)).toBe(ORIGIN + url);
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

const left = (name: string) => `The header ${name} is left out.`;
test.each([
  [request('POST', '/', {}, 'x', true), 'The body is cut off: only its beginning is recorded.'],
  [request('GET', '/v1/pets?key=[redacted]'), 'Replace [redacted] with the secret first.'],
  [request('GET', '/', { cookie: '[redacted]' }), left('cookie')],
  [request('GET', '/', { a: '\x1b[2J' }), left('a')],
  [request('GET', '/', { a: 'M\u00fcller' }), left('a')],
  [request('-', '-'), 'curl cannot repeat this request.'],
  [request('OPTIONS', '*'), 'curl cannot repeat this request.'],
])('the command for %j says what it does not repeat: %s', (recorded, note) => {
  expect(curlCommand(recorded, ORIGIN).notes).toEqual([note]);
});
