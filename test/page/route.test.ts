import { expect, test } from 'vitest';
import { formatRoute, MAX_SEARCH_TEXT, parseRoute, startRoute } from '../../src/page/route.ts';

test.each([
  ['#requests', {}],
  ['#requests?request=14', { request: 14 }],
  ['#requests?text=%22a%22%26b&status=failed', { text: '"a"&b', status: 'failed' }],
  ['#requests?text=till&request=9', { text: 'till', request: 9 }],
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
  expect(parseRoute(`#requests?text=${'x'.repeat(9_000)}`, startRoute).text).toHaveLength(MAX_SEARCH_TEXT);
});

test('another view keeps the filters', () => {
  const filtered = parseRoute('#requests?status=failed', startRoute);
  const keys = parseRoute('#keys', filtered);
  expect(formatRoute(keys)).toBe('#keys');
  expect(formatRoute({ ...keys, view: 'requests' })).toBe('#requests?status=failed');
});
