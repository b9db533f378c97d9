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
  const space = fc.constantFrom('', ' ', '\t', '  ');
  const letters = (alphabet: string) =>
    fc.string({ unit: fc.constantFrom(...alphabet), minLength: 1, maxLength: 12 });
  const token = letters("abcREL019!#$%&'*+-.^_`|~");
  const quoted = fc
    .string({ unit: fc.constantFrom(...'rel=next;,<>"\\ /é\t'), maxLength: 20 })
    .map((text) => `"${text.replace(/["\\]/g, '\\$&')}"`);
  const uri = letters("abc019/?#[]@!$&'()*+,;=%:-._~");
  const parameter = fc
    .record({
      name: token.filter((name) => name.toLowerCase() !== 'rel'),
      value: fc.option(fc.oneof(token, quoted)),
      before: space,
      after: space,
    })
    .map(({ name, value, before, after }) => (value === null ? name : `${name}${before}=${after}${value}`));
  const relationOf = (relations: string[]) =>
    fc.shuffledSubarray(relations, { minLength: relations.length }).map((each) => each.join(' '));
  const linkWith = (rel: fc.Arbitrary<string>) =>
    fc
      .record({
        uri,
        rel,
        parameters: fc.array(fc.oneof(parameter, fc.constant(''))),
        more: fc.array(parameter),
        space,
      })
      .map((link) => ({
        uri: link.uri,
        text: [`<${link.uri}>`, ...link.parameters, link.rel, ...link.more].join(
          `${link.space};${link.space}`,
        ),
      }));
  const other = linkWith(fc.constantFrom('rel=prev', 'rel="last prev"', 'rel', 'rev=next', 'rel=nextpage'));
  const next = linkWith(
    fc.oneof(
      fc.constantFrom('rel=next', 'Rel=Next', 'rel = next'),
      relationOf(['next', 'last', 'http://a.test/x']).map((names) => `rel="${names}"`),
    ),
  );
  const elements = fc.array(fc.oneof(other, fc.constant({ uri: '', text: '' })));
  fc.assert(
    fc.property(elements, next, elements, fc.boolean(), (before, link, after, isRepeated) => {
      const texts = [...before, link, ...after].map(({ text }) => text);
      expect(findLink({ link: isRepeated ? texts : texts.join(' , ') }, 'next')).toBe(link.uri);
      expect(findLink({ link: [...before, ...after].map(({ text }) => text) }, 'next')).toBeUndefined();
    }),
    { numRuns: cases(2_000) },
  );
});
