import { describe, expect, test } from 'vitest';
import { decodeSegments, parseQuery, pathOf, validateTarget } from '../../src/server/request/target.ts';

describe('valid targets', () => {
  test.each([
    ['/v1/pets', ['v1', 'pets'], {}],
    ['/v1/pets?', ['v1', 'pets'], {}],
    ['/v1/pets?limit=5&status=sold', ['v1', 'pets'], { limit: '5', status: 'sold' }],
    ['/v1/pets/%31', ['v1', 'pets', '1'], {}],
    ['/v1/pets/a%2Fb', ['v1', 'pets', 'a/b'], {}],
    ['/v1/pets?a=b=c&d', ['v1', 'pets'], { a: 'b=c', d: '' }],
    ['/v1/pets?a+b=c%20d+e', ['v1', 'pets'], { 'a b': 'c d e' }],
    ['/v1//pets', ['v1', '', 'pets'], {}],
    ['/v1/pets?__proto__=1', ['v1', 'pets'], Object.fromEntries([['__proto__', '1']])],
  ])('%s', (url, segments, query) => {
    expect(decodeSegments(pathOf(url))).toEqual(segments);
    expect(Object.entries(parseQuery(url))).toEqual(Object.entries(query));
  });
});

describe('invalid targets', () => {
  test.each([
    ['http://example.com/v1/pets', /must be a path/],
    ['//example.com/v1/pets', /must be a path/],
    ['*', /must be a path/],
    ['', /must be a path/],
    ['/v1/pets/%zz', /percent-encoding/],
    ['/v1/pets/%ff', /percent-encoding/],
    ['/v1/pets?a=%', /percent-encoding/],
    ['/v1/pets?limit=1&limit=1', /limit is given more than once/],
    ['/v1/pets?__proto__=1&__proto__=2', /__proto__ is given more than once/],
  ])('%s', (url, message) => expect(() => validateTarget(url)).toThrow(message));
});
