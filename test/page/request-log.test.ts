import { describe, expect, test } from 'vitest';
import type { LoggedRequest } from '../../src/page/api-types.ts';
import {
  announcementOf,
  emptyLog,
  formatRoute,
  MAX_REQUESTS,
  MAX_SEARCH_TEXT,
  matchesFilter,
  mergePoll,
  noFilter,
  parseRoute,
  pollQuery,
  startRoute,
} from '../../src/page/request-log.ts';

const request = (number: number, changes: Partial<LoggedRequest> = {}): LoggedRequest => ({
  number,
  id: `id-${number}`,
  time: '2026-11-20T12:00:00.000Z',
  milliseconds: 1,
  client: '127.0.0.1',
  method: 'GET',
  url: `/v1/pets/${number}`,
  status: 200,
  outcome: 'counted',
  because: 'counted',
  ...changes,
});

/** Requests with descending numbers. */
const requests = (from: number, to: number) =>
  Array.from({ length: from - to + 1 }, (_, i) => request(from - i));

const response = (from: number, to: number, cursor: string) => ({
  requests: requests(from, to),
  running: [],
  cursor,
});

describe('polling', () => {
  test('reads all requests first, and then waits for new ones', () => {
    expect(pollQuery(emptyLog, '')).toBe('summary=true');
    const log = mergePoll(emptyLog, '', response(2, 1, 'c-2'));
    expect(pollQuery(log, '')).toBe('summary=true&since=c-2&wait=1');
    expect(mergePoll(log, '', response(3, 3, 'c-3'))).toMatchObject({
      requests: requests(3, 1),
      cursor: 'c-3',
    });
  });

  test('keeps the latest requests, without a gap', () => {
    const log = mergePoll(emptyLog, '', response(MAX_REQUESTS, 1, 'a'));
    const next = mergePoll(log, '', response(MAX_REQUESTS + 5, MAX_REQUESTS + 1, 'b'));
    expect(next.requests).toEqual(requests(MAX_REQUESTS + 5, 6));
    // More requests than the server keeps have arrived since the last poll.
    const flooded = mergePoll(next, '', response(5_000, 5_001 - MAX_REQUESTS, 'c'));
    expect(flooded.requests).toEqual(requests(5_000, 5_001 - MAX_REQUESTS));
  });

  test('reads all requests again that contain another text', () => {
    const log = mergePoll(emptyLog, '', response(9, 1, 'a'));
    expect(pollQuery(log, 'rex & co')).toBe('summary=true&text=rex+%26+co');
    const found = mergePoll(log, 'rex & co', response(3, 3, 'b'));
    expect(found.requests).toEqual(requests(3, 3));
    expect(pollQuery(found, 'rex & co')).toContain('since=b');
  });

  test('forgets requests that are no longer running, and of other origins if there are none', () => {
    const { number: _, ...running } = request(1);
    const others = { requests: 1, origin: 'http://shop.example', time: running.time };
    const log = mergePoll(emptyLog, '', { ...response(0, 1, 'a'), running: [running], otherOrigins: others });
    expect(log).toMatchObject({ running: [running], otherOrigins: others });
    expect(mergePoll(log, '', response(1, 1, 'b'))).toEqual({ ...response(1, 1, 'b'), text: '' });
  });
});

const refused = request(7, { status: 429, code: 'rate_limited', outcome: 'rate_limited', keyName: 'shop' });
const { number: _number, status: _status, ...running } = request(7);

test.each([
  ['refused', {}, true],
  ['refused', { status: 'rejected' }, true],
  ['refused', { status: 'failed' }, false],
  ['refused', { method: 'GET' }, true],
  ['refused', { method: 'POST' }, false],
  ['refused', { key: 'shop' }, true],
  ['refused', { key: 'other' }, false],
  ['refused', { text: 'which the server has found' }, true],
  ['refused', { status: 'rejected', method: 'POST' }, false],
  ['running', {}, true],
  ['running', { status: 'ok' }, false],
  ['running', { text: 'PETS/7' }, true],
  ['running', { text: 'pets/8' }, false],
] as const)('a request that is %s matches the filter %j: %s', (kind, filter, expected) => {
  expect(matchesFilter(kind === 'refused' ? refused : running, { ...noFilter, ...filter })).toBe(expected);
});

test.each([
  [[], undefined],
  [[request(1)], '1 new request'],
  [[request(1), request(2, { status: 429 })], '2 new requests, 1 with an error'],
])('new requests are announced together', (added, text) => {
  expect(announcementOf(added)).toBe(text);
});

describe('the address of the page', () => {
  test.each([
    ['#requests', {}],
    ['#requests?request=14', { request: 14 }],
    [
      '#requests?text=%22a%22%26b&status=failed',
      { filter: { ...noFilter, text: '"a"&b', status: 'failed' } },
    ],
    [
      '#requests?method=POST&key=till&request=9',
      { filter: { ...noFilter, method: 'POST', key: 'till' }, request: 9 },
    ],
  ])('%s has the view, the filters and the request', (hash, route) => {
    expect(parseRoute(hash, startRoute)).toEqual({ ...startRoute, ...route });
    expect(formatRoute({ ...startRoute, ...route })).toBe(hash);
  });

  test.each(['#', '#nothing', '#constructor'])('%j leads to the route before', (hash) => {
    expect(parseRoute(hash, { ...startRoute, view: 'keys' })).toEqual({ ...startRoute, view: 'keys' });
  });

  test('an address without an end leads to all requests, for example with the back button', () => {
    expect(parseRoute('', parseRoute('#requests?request=14', startRoute))).toEqual(startRoute);
  });

  test.each(['x', '-1', '1.5', '1e400', ''])('a request with the number "%s" is ignored', (number) => {
    expect(parseRoute(`#requests?request=${number}`, startRoute).request).toBeUndefined();
  });

  test('a text that is too long for the server is cut off', () => {
    expect(parseRoute(`#requests?text=${'x'.repeat(9_000)}`, startRoute).filter.text).toHaveLength(
      MAX_SEARCH_TEXT,
    );
  });

  test('another view keeps the filters', () => {
    const filtered = parseRoute('#requests?method=POST', startRoute);
    const keys = parseRoute('#keys', filtered);
    expect(formatRoute(keys)).toBe('#keys');
    expect(formatRoute({ ...keys, view: 'requests' })).toBe('#requests?method=POST');
  });
});
