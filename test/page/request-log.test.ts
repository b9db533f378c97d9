import { describe, expect, test } from 'vitest';
import { parseJson } from '../../src/contract/json.ts';
import {
  announcement,
  clearLog,
  emptyLog,
  MAX_KEPT,
  matchesFilter,
  mergePoll,
  noFilter,
  POLL_LIMIT,
  pollQuery,
  readPoll,
} from '../../src/page/request-log.ts';
import type { RequestSummary } from '../../src/server/tools/log-entry.ts';

const request = (number: number, changes: Partial<RequestSummary> = {}): RequestSummary => ({
  number,
  id: `id-${number}`,
  time: '2026-11-20T12:00:00.000Z',
  milliseconds: 1,
  client: '127.0.0.1',
  method: 'GET',
  url: `/v1/pets/${number}`,
  status: 200,
  outcome: 'counted',
  because: 'counted: 59 of 60 requests are left in this minute',
  ...changes,
});

/** Requests with descending numbers. */
const requests = (from: number, to: number) =>
  Array.from({ length: from - to + 1 }, (_, i) => request(from - i));

describe('polling', () => {
  test('reads all requests first, and then waits for new ones', () => {
    expect(pollQuery(emptyLog)).toBe('summary=true&limit=1000');
    const log = mergePoll(emptyLog, { requests: requests(2, 1), cursor: 'c-2' });
    expect(pollQuery(log)).toBe('summary=true&since=c-2&wait=20&limit=200');
    const next = mergePoll(log, { requests: requests(3, 3), cursor: 'c-3' });
    expect(next).toMatchObject({ requests: requests(3, 1), cursor: 'c-3', hasGap: false });
  });

  test('keeps a bounded number of requests', () => {
    const log = mergePoll(emptyLog, { requests: requests(MAX_KEPT, 1), cursor: 'a' });
    const next = mergePoll(log, { requests: requests(MAX_KEPT + 5, MAX_KEPT + 1), cursor: 'b' });
    expect(next.requests).toEqual(requests(MAX_KEPT + 5, 6));
  });

  test('reads everything again after more requests than one poll returns, as soon as there are fewer', () => {
    const log = mergePoll(emptyLog, { requests: requests(2, 1), cursor: 'a' });
    const flooded = mergePoll(log, { requests: requests(5_000, 5_001 - POLL_LIMIT), cursor: 'b' });
    expect(flooded).toMatchObject({ hasGap: true, cursor: 'b' });
    expect(flooded.requests).toHaveLength(POLL_LIMIT);
    expect(pollQuery(flooded)).toBe('summary=true&since=b&limit=200');
    const calm = mergePoll(flooded, { requests: requests(5_001, 5_001), cursor: 'c' });
    expect(calm).toMatchObject({ hasGap: true, readsAll: true });
    expect(pollQuery(calm)).toBe('summary=true&limit=1000');
    const whole = mergePoll(calm, { requests: requests(5_001, 4_002), cursor: 'c' });
    expect(whole).toMatchObject({ hasGap: false, cursor: 'c' });
  });

  test('does not show cleared requests again, also after a gap', () => {
    const log = clearLog(mergePoll(emptyLog, { requests: requests(2, 1), cursor: 'a' }));
    expect(log).toMatchObject({ requests: [], cursor: 'a' });
    expect(pollQuery({ ...log, readsAll: true })).toBe('summary=true&since=a&limit=1000');
  });

  test('can be cleared while it must be read again', () => {
    const log = clearLog({ ...emptyLog, requests: requests(2, 1), cursor: 'c', hasGap: true });
    expect(log).toMatchObject({ requests: [], hasGap: false });
    expect(pollQuery(log)).toContain('since=c&wait=20&limit=200');
  });

  test('converts durations with a fraction to numbers', () => {
    const text = JSON.stringify({ requests: [request(1, { milliseconds: 0.5 })], cursor: 'a' });
    const [read] = readPoll(parseJson(text) as Parameters<typeof readPoll>[0]).requests;
    expect(read?.milliseconds).toBe(0.5);
  });
});

test.each([
  [{}, true],
  [{ status: 'refused' }, true],
  [{ status: 'failed' }, false],
  [{ method: 'GET' }, true],
  [{ method: 'POST' }, false],
  [{ outcome: 'rate_limited' }, true],
  [{ outcome: 'banned' }, false],
  [{ key: 'shop' }, true],
  [{ key: 'other' }, false],
  [{ text: 'PETS/7' }, true],
  [{ text: 'rate_' }, true],
  [{ text: 'id-7' }, true],
  [{ text: 'nothing' }, false],
  [{ status: 'refused', method: 'POST' }, false],
] as const)('the filter %j matches a refused request: %s', (filter, expected) => {
  const refused = request(7, { status: 429, code: 'rate_limited', outcome: 'rate_limited', keyName: 'shop' });
  expect(matchesFilter(refused, { ...noFilter, ...filter })).toBe(expected);
});

test.each([
  [[], undefined],
  [[request(1)], '1 new request'],
  [[request(1), request(2, { status: 429 })], '2 new requests, 1 with an error'],
])('new requests are announced together', (added, text) => {
  expect(announcement(added)).toBe(text);
});
