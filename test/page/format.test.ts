import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readFaultForm, ruleExamples } from '../../src/page/fault-settings.ts';
import {
  durationText,
  formatBytes,
  formatUntil,
  formatWait,
  localTime,
  longOutcome,
  requestKind,
  shortOutcome,
  visibleLine,
  visibleText,
} from '../../src/page/format.ts';
import { layOutJson } from '../../src/page/json-layout.ts';
import { isBodyCutOff } from '../../src/page/recorded-body.ts';
import { FaultSettings } from '../../src/server/faults/fault-settings.ts';
import { hostileTexts } from '../helpers/hostile-text.ts';

const now = new Date(2026, 10, 20, 12, 0, 0);
const laterToday = new Date(2026, 10, 20, 12, 1, 5).toISOString();
const tomorrow = new Date(2026, 10, 21, 0, 0, 0).toISOString();

test.each([
  [200, 'ok'],
  [304, 'ok'],
  [404, 'rejected'],
  [429, 'refused'],
  [503, 'failed'],
] as const)('a request with status %i is %s', (status, kind) => {
  expect(requestKind({ status })).toBe(kind);
});

test.each([
  ['counted', undefined, 'counted', 'Counted against'],
  ['replayed', undefined, 'replayed', 'Idempotency-Key'],
  ['rate_limited', laterToday, 'refused until 12:01:05', 'at 12:01:05'],
  ['rate_limited', undefined, 'refused', 'later'],
  ['banned', tomorrow, 'banned until 2026-11-21 00:00:00', 'at 2026-11-21 00:00:00'],
  ['injected_fault', undefined, 'injected fault', 'changed nothing'],
  ['mocked', undefined, 'mocked', 'Prefer'],
  ['not_counted', undefined, 'not counted', 'Not counted'],
] as const)('the outcome %s until %s is shown as %j', (outcome, until, short, long) => {
  const request = until === undefined ? { outcome } : { outcome, until };
  expect(shortOutcome(request, now)).toBe(short);
  expect(longOutcome(request, now)).toContain(long);
});

test('times are local, with a date if they are not today', () => {
  expect(localTime(new Date(2026, 0, 2, 3, 4, 5, 6).toISOString())).toBe('03:04:05.006');
  expect(formatUntil(tomorrow, now)).toBe('2026-11-21 00:00:00');
});

test.each([
  [durationText(0.84), '0.8 ms'],
  [durationText(1_234), '1.23 s'],
  [formatWait(-1), '0 s'],
  [formatWait(33_100), '34 s'],
  [formatWait(150_000), '2 min'],
  [formatWait(18_720_000), '5 h 12 min'],
  [formatBytes(379), '379 bytes'],
  [formatBytes(16_384), '16.0 KiB'],
])('%s', (text, expected) => {
  expect(text).toBe(expected);
});

describe('text from clients', () => {
  test.each([
    ['\u202eevil\u0007', '\\u202eevil\\u0007'],
    ['a\nb\tc', 'a\\nb\\tc'],
    ['👨‍👩‍👧 שלום', '👨‍👩‍👧 שלום'],
    ['x'.repeat(100_000), `${'x'.repeat(400)}…`],
  ])('%j is shown on one line', (text, shown) => {
    expect(visibleLine(text)).toBe(shown);
  });

  test('never has a character that hides or reverses text, and keeps lines and tabs', () => {
    expect(visibleText('{\n\t"a": 1 }')).toBe('{\n\t"a": 1 }');
    fc.assert(
      fc.property(hostileTexts, (text) => {
        expect(visibleText(text)).not.toMatch(/(?![\n\t])\p{Cc}|[\u202a-\u202e\u2066-\u2069]/u);
      }),
    );
  });
});

test.each([
  ['{"id":9007199254740993,"a":[],"b":{}}', '{\n  "id": 9007199254740993,\n  "a": [],\n  "b": {}\n}'],
  ['[1.50, "a,{\\"}", {"x" :-0}]', '[\n  1.50,\n  "a,{\\"}",\n  {\n    "x": -0\n  }\n]'],
  ['{"a":1,"a":2}', '{\n  "a": 1,\n  "a": 2\n}'],
  ['"text"', undefined],
  ['{"a":', undefined],
  ['', undefined],
  [`${'['.repeat(1_000)}${']'.repeat(1_000)}`, undefined],
])('%j is laid out with all its digits and names', (text, expected) => {
  expect(layOutJson(text)).toBe(expected);
});

test('JSON that is laid out is the same JSON', () => {
  fc.assert(
    fc.property(fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(hostileTexts, fc.jsonValue())), (value) => {
      const text = JSON.stringify(value);
      expect(JSON.parse(layOutJson(text) ?? '')).toEqual(JSON.parse(text));
    }),
  );
});

test.each([
  ['no body', {}, 0, false],
  ['a whole body', { body: 'ü' }, 2, false],
  ['a long body', { body: 'x'.repeat(16_000) }, 16_385, true],
  ['a body with a redacted key', { body: '[redacted]' }, 48, false],
  ['the first part of a body', { body: 'ab' }, 3, true],
  ['a dropped body', {}, 100, false],
])('%s is cut off: see the table', (_name, message, bodyBytes, expected) => {
  expect(isBodyCutOff({ headers: {}, ...message, bodyBytes })).toBe(expected);
});

describe('the form for faults', () => {
  const empty = { min: '', max: '', failRate: '', rules: '' };

  test.each([
    [empty, '{}'],
    [{ ...empty, min: '5' }, '{"latency":{"min":5,"max":5}}'],
    [{ ...empty, max: '20' }, '{"latency":{"min":20,"max":20}}'],
    [
      { min: '5', max: '20', failRate: '20', rules: '[{"answer":503}]' },
      '{"latency":{"min":5,"max":20},"failRate":0.2,"rules":[{"answer":503}]}',
    ],
  ])('%j is sent as %s', (form, body) => {
    expect(readFaultForm(form)).toBe(body);
  });

  test.each(ruleExamples.map((example) => [example.title, example.rules] as const))(
    'has the valid example "%s"',
    (_title, rules) => {
      expect(FaultSettings.parse(JSON.parse(rules))).toMatchObject({ rules: [{}] });
    },
  );
});
