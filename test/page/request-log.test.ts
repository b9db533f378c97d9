import { describe, expect, test } from 'vitest';
import { MAX_FOREIGN_REQUESTS, MAX_RECORDED_REQUESTS } from '../../src/contract/recorded-text.ts';
import { emptyLog, mergePoll, pollQuery, titleOf } from '../../src/page/requests.ts';
import type { LoggedRequest } from '../../src/page/text.ts';

/** Requests with descending numbers. */
const requests = (from: number, to: number, changes: Partial<LoggedRequest> = {}) =>
  Array.from(
    { length: from - to + 1 },
    (_, i) => ({ number: from - i, status: 200, ...changes }) as LoggedRequest,
  );
const response = (from: number, to: number, cursor: string, changes: Partial<LoggedRequest> = {}) => ({
  ...{ requests: requests(from, to, changes), log: 'first', cursor },
});

describe('polling', () => {
  test('reads all requests first, and then the new ones, without a gap, and keeps the latest', () => {
    expect(pollQuery(emptyLog, '')).toBe('summary=true');
    const log = mergePoll(emptyLog, '', response(MAX_RECORDED_REQUESTS, 1, 'c-2'));
    expect(pollQuery(log, '')).toBe('summary=true&since=c-2');
    const next = mergePoll(log, '', response(MAX_RECORDED_REQUESTS + 5, MAX_RECORDED_REQUESTS + 1, 'b'));
    expect(next).toMatchObject({ requests: requests(MAX_RECORDED_REQUESTS + 5, 6), cursor: 'b' });
    // More requests than the server keeps have arrived since the last poll.
    const flooded = mergePoll(next, '', response(5_000, 5_001 - MAX_RECORDED_REQUESTS, 'c'));
    expect(flooded.requests).toEqual(requests(5_000, 5_001 - MAX_RECORDED_REQUESTS));
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
    const log = mergePoll(own, '', response(MAX_FOREIGN_REQUESTS + 8, 4, 'b', { foreignOrigin }));
    expect(log.requests).toEqual([
      ...requests(MAX_FOREIGN_REQUESTS + 8, 9, { foreignOrigin }),
      ...requests(3, 1),
    ]);
  });
});

test.each([
  [[], '7387', 'pets serve :7387'],
  [[200], '', 'pets serve shop.example'],
  [[200, 429, 503], '1', '2 errors · pets serve :1'],
])(
  'after responses %j, the title of the tab has the number of errors and the port',
  (statuses, port, title) => {
    const logged = statuses.flatMap((status) => requests(1, 1, { status }));
    expect(titleOf(logged, { port, hostname: 'shop.example' })).toBe(title);
  },
);
