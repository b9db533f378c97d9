import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findLink } from '../../src/client/response.ts';
import { cases } from '../helpers/cases.ts';

test.each<[string, string | string[], string | undefined]>([
  ['a quoted string that contains a link', '</p>; title="a, </b>; rel=next"; rel=prev, </a>; rel=next', '/a'],
  ['a repeated relation, of which the first counts', '</b>; rel=prev; rel=next, </a>; rel=next', '/a'],
  ['another relation', '</b>; rel=prev; title=next', undefined],
  ['no target', 'a; rel=next', undefined],
  ['no end of the target', '</a; rel=next', undefined],
  ['no end of a quoted string', '</b>; title="x; rel=next', undefined],
])('Link with %s', (_name, link, target) => {
  expect(findLink({ link }, 'next')).toBe(target);
});

test('every valid Link header leads to the next page (RFC 8288)', () => {
  const uri = fc.string({
    unit: fc.constantFrom(..."abc019/?#[]@!$&'()*+,;=%:-._~"),
    minLength: 1,
    maxLength: 12,
  });
  const quoted = fc
    .string({ unit: fc.constantFrom(...'rel=next;,<>"\\ /é\t'), maxLength: 20 })
    .map((text) => `title="${text.replace(/["\\]/g, '\\$&')}"`);
  const parameters = fc.array(
    fc.oneof(quoted, fc.constantFrom('', 'title=next', "rev!#$%&'*+.^_`|~=next", 'flag')),
  );
  const linkWith = (...relations: string[]) =>
    fc
      .tuple(uri, parameters, fc.constantFrom(...relations), parameters, fc.constantFrom(';', ' ; ', '\t;  '))
      .map(([target, before, relation, after, separator]) => ({
        target,
        text: [`<${target}>`, ...before, relation, ...after].join(separator),
      }));
  const others = fc.array(
    fc.oneof(
      linkWith('rel=prev', 'rel="last prev"', 'rel', 'rev=next', 'rel=nextpage'),
      fc.constant({ text: '' }),
    ),
  );
  const next = linkWith(
    'rel=next',
    'Rel=Next',
    'rel = next',
    'rel="next"',
    'rel="http://a.test/x next last"',
  );
  fc.assert(
    fc.property(others, next, others, fc.boolean(), (before, link, after, isRepeated) => {
      const texts = [...before, link, ...after].map(({ text }) => text);
      expect(findLink({ link: isRepeated ? texts : texts.join(' , ') }, 'next')).toBe(link.target);
      expect(findLink({ link: [...before, ...after].map(({ text }) => text) }, 'next')).toBeUndefined();
    }),
    { numRuns: cases(2_000) },
  );
});
