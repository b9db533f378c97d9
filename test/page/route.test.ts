import { expect, test } from 'vitest';
import { formatRoute, MAX_SEARCH_TEXT, parseRoute, startRoute } from '../../src/page/requests.ts';

test.each([
  ['#requests', {}],
  ['#requests?text=%22a%22%26b&status=failed', { text: '"a"&b', status: 'failed' }],
  ['#requests?text=till&request=9', { text: 'till', request: 9 }],
])('%s has the view, the filters and the request', (hash, route) => {
  expect(parseRoute(hash, startRoute)).toEqual({ ...startRoute, ...route });
  expect(formatRoute({ ...startRoute, ...route })).toBe(hash);
});

test.each(['#', '#nothing', '#constructor'])('%j leads to the route before', (hash) => {
  expect(parseRoute(hash, { ...startRoute, view: 'keys' })).toEqual({ ...startRoute, view: 'keys' });
});

test('invalid numbers of requests are ignored, and a text that is too long for the server is cut off', () => {
  for (const number of ['x', '-1', '1.5', '1e400', ''])
    expect(parseRoute(`#requests?request=${number}`, startRoute).request).toBeUndefined();
  expect(parseRoute(`#requests?text=${'x'.repeat(9_000)}`, startRoute).text).toHaveLength(MAX_SEARCH_TEXT);
});

test('another view keeps the filters; an address without an end leads to all requests', () => {
  const keys = parseRoute('#keys', parseRoute('#requests?status=failed', startRoute));
  expect(formatRoute(keys)).toBe('#keys');
  expect(formatRoute({ ...keys, view: 'requests' })).toBe('#requests?status=failed');
  expect(parseRoute('', keys)).toEqual(startRoute);
});
