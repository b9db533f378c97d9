import { describe, expect, test } from 'vitest';
import { MAX_FOREIGN, MAX_REQUESTS } from '../../src/contract/recorded-text.ts';
import type { LoggedRequest } from '../../src/page/api-types.ts';
import { emptyLog, mergePoll, pollQuery, titleOf } from '../../src/page/request-log.ts';

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
const requests = (from: number, to: number, changes: Partial<LoggedRequest> = {}) =>
  Array.from({ length: from - to + 1 }, (_, i) => request(from - i, changes));

const response = (from: number, to: number, cursor: string, changes: Partial<LoggedRequest> = {}) => ({
  requests: requests(from, to, changes),
  log: 'first',
  cursor,
});

describe('polling', () => {
  test('reads all requests first, and then the new ones', () => {
    expect(pollQuery(emptyLog, '')).toBe('summary=true');
    const log = mergePoll(emptyLog, '', response(2, 1, 'c-2'));
    expect(pollQuery(log, '')).toBe('summary=true&since=c-2');
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

  test('forgets the requests of a log that was cleared, or of a server that was started again', () => {
    const log = mergePoll(emptyLog, '', response(9, 1, 'a'));
    expect(mergePoll(log, '', { ...response(2, 1, 'b'), log: 'second' }).requests).toEqual(requests(2, 1));
  });

  test('keeps only the latest requests of pages that may not use the service, and all others', () => {
    const own = mergePoll(emptyLog, '', response(3, 1, 'a'));
    const foreignOrigin = 'http://evil.example';
    const log = mergePoll(own, '', response(MAX_FOREIGN + 8, 4, 'b', { foreignOrigin }));
    expect(log.requests).toEqual([...requests(MAX_FOREIGN + 8, 9, { foreignOrigin }), ...requests(3, 1)]);
  });
});

test.each([
  [[], '7387', 'pets serve :7387'],
  [[request(1)], '', 'pets serve shop.example'],
  [[request(1), request(2, { status: 429 }), request(3, { status: 503 })], '1', '2 errors · pets serve :1'],
])('the title of the tab has the number of errors and the port', (logged, port, title) => {
  expect(titleOf(logged, { port, hostname: 'shop.example' })).toBe(title);
});
