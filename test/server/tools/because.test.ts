import { expect, test } from 'vitest';
import { createRequestDescriber, describeReason } from '../../../src/server/tools/log-entry.ts';
import type { RecordedRequest } from '../../../src/server/tools/recorder.ts';

const body = { text: '', bytes: 0, isCutOff: false, isText: true };
const recorded = (changes: Partial<RecordedRequest>): RecordedRequest => ({
  number: 1,
  id: 'id',
  client: '127.0.0.1',
  method: 'GET',
  url: '/v1/pets',
  operation: 'listPets',
  keyName: 'till',
  time: 0,
  milliseconds: 1,
  status: 200,
  code: undefined,
  message: undefined,
  asked: undefined,
  latency: 0,
  again: undefined,
  window: { limit: 300, remaining: 241, resetAt: 0 },
  isDay: false,
  isCounted: false,
  headers: [],
  body,
  responseHeaders: [],
  responseBody: body,
  ...changes,
});

// requests.test.ts has the sentences of ordinary requests.
test.each<[changes: Partial<RecordedRequest>, sentence: string]>([
  [
    { isCounted: true, isDay: true, window: { limit: 1_000, remaining: 241, resetAt: 0 } },
    'counted: 241 of 1000 requests are left in this day',
  ],
  [{ status: 404, code: 'not_found', message: 'Not found. See x.', isCounted: true }, 'Not found. See x'],
  [
    { status: 429, code: 'rate_limited', message: 'The limit of …', isDay: true },
    '300 of 300 requests of this day are used',
  ],
  [
    {
      status: 429,
      code: 'rate_limited',
      message: 'The limit of …',
      window: { limit: 60, remaining: 0, resetAt: 0 },
      keyName: undefined,
    },
    '60 of 60 requests without a valid key of this minute are used',
  ],
  [
    { asked: { status: 503, source: 'the fail rate chose this request' }, message: 'Injected' },
    'the fail rate chose this request',
  ],
  [
    { latency: 3_040, asked: { status: 503, source: 'your rule for POST' } },
    'your rule for POST, delayed by 3 s',
  ],
  [
    { status: 0, latency: 9 },
    'the client had closed the connection; your faults delayed the response by 9 ms',
  ],
  [{ status: 0 }, 'the client had closed the connection'],
])('%j: %s', (changes, sentence) => {
  expect(describeReason(recorded(changes), undefined)).toBe(sentence);
});

test('a repeated response is that of the latest creation with the same animal', () => {
  const creation = (number: number, animal: string, headers: string[] = []) =>
    recorded({
      ...{ number, status: 201, isCounted: headers.length === 0, responseHeaders: headers },
      responseBody: { ...body, text: animal },
    });
  const repeated = ['Idempotency-Replayed', 'true'];
  const creations = [creation(1, 'a'), creation(3, 'b'), creation(5, 'a'), creation(9, 'a')].toReversed();
  const { summarize } = createRequestDescriber([], creations);
  const reasons = [creation(4, 'a', repeated), creation(6, 'a', repeated), creation(7, 'gone', repeated)].map(
    (each) => summarize(each).because,
  );
  expect(reasons).toEqual(
    ['request 1', 'request 5', 'an earlier request'].map(
      (name) => `the same response as ${name}, by its Idempotency-Key`,
    ),
  );
});
