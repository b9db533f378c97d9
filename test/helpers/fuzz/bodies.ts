import fc from 'fast-check';
import { INT64_MAX, INT64_MIN } from '../../../src/contract/json.ts';
import { petStatuses } from '../../../src/contract/schemas.ts';
import type { CreateRequest } from '../../../src/store/store.ts';

/** A request body with the expected animal, or the expected error status. */
export type Body = { bytes: Buffer; pet?: CreateRequest['pet']; refused?: 400 | 413 };

/** A JSON text and its value. Invalid text has no value. An empty `text` means that a field is left out. */
type Text<Value> = { text: string; value?: Value };

const MAX_BYTES = 65_536;
/** The maximum depth of arrays in a field. The service accepts 32 levels, and the animal itself is the first level. */
const MAX_NESTED = 31;

/** Generates values of `good`, and about one in 13 of `bad`. */
export const mostly = <Good, Bad = Good>(good: fc.Arbitrary<Good>, bad: fc.Arbitrary<Bad>) =>
  fc.oneof({ arbitrary: good, weight: 12 }, { arbitrary: bad, weight: 1 });

const codeUnits = fc.array(fc.nat(0xffff), { maxLength: 12 }).map((units) => String.fromCharCode(...units));
const exotic = fc.constantFrom(
  ...['', ' ', '\0', '\ud800', '😀'.repeat(40), '"\\', '__proto__', 'x'.repeat(600), '"\\"},{"id":9,'],
  ...['a\nb\r\u2028', '\u202e\u001b[31m', '{"crc":"00000000","seq":1}\n{"crc":"'],
);
// Names with lone surrogates are invalid.
const isLone = /\p{Surrogate}/u;
/** Formats a string as JSON, with or without escaping every character. */
const written = (value: string, isEscaped: boolean) =>
  isEscaped
    ? `"${value.replace(/./gs, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)}"`
    : JSON.stringify(value);
const name: fc.Arbitrary<Text<string>> = mostly(
  fc
    .tuple(
      fc.oneof(fc.constantFrom('Rex', 'Ada'), fc.string({ unit: 'binary' }), codeUnits, exotic),
      fc.boolean(),
    )
    .map(([value, isEscaped]) => {
      const text = written(value, isEscaped);
      return isLone.test(value) ? { text } : { text, value };
    }),
  fc.constantFrom('null', '7', '["Rex"]', '"a\nb"', '"\\x"', "'Rex'", '').map((text) => ({ text })),
);

const numbers = { '-0': 0n, '3.0': 3n, '1e3': 1000n, '100e-2': 1n, '-9.0E+0': -9n } as const;
const categoryId: fc.Arbitrary<Text<bigint>> = mostly(
  fc.oneof(
    fc
      .oneof(fc.bigInt({ min: 0n, max: 9n }), fc.bigInt({ min: INT64_MIN, max: INT64_MAX }))
      .map((value) => ({ text: `${value}`, value })),
    fc.constantFrom(...Object.entries(numbers)).map(([text, value]) => ({ text, value })),
  ),
  fc.constantFrom(`${INT64_MAX + 1n}`, '9'.repeat(400), '1.5', '1e', '1e999999999').map((text) => ({ text })),
);

const status: fc.Arbitrary<Text<CreateRequest['pet']['status']>> = mostly(
  fc.oneof(
    fc.constant({ text: '', value: 'available' as const }),
    fc.constantFrom(...petStatuses).map((value) => ({ text: `"${value}"`, value })),
  ),
  fc.constantFrom('"gone"', '"AVAILABLE"', '""', 'null', '1', '[]').map((text) => ({ text })),
);

/** Additional fields. They precede the animal's own fields, because the last of two fields with the same name wins. */
const more: fc.Arbitrary<Text<true>> = mostly(
  fc
    .oneof(
      fc.constantFrom('', '"id":7', '"categoryId":"first"', '"__proto__":{"status":"sold"}', '"n":1e400'),
      fc.json({ maxDepth: 3 }).map((json) => `"more":${json}`),
      fc
        .integer({ min: 1, max: MAX_NESTED })
        .map((depth) => `"deep":${'['.repeat(depth)}${']'.repeat(depth)}`),
    )
    .map((text) => ({ text, value: true })),
  fc
    .constantFrom(`"deep":${'['.repeat(9_000)}${']'.repeat(9_000)}`, '"open":[', ',', '"n":NaN', '"n":1/* */')
    .map((text) => ({ text })),
);

const anyPet: fc.Arbitrary<Text<CreateRequest['pet']>> = fc
  .record({ more, name, categoryId, status })
  .map(({ more, name, categoryId, status }) => {
    const fields = { name: name.text, categoryId: categoryId.text, status: status.text };
    const texts = Object.entries(fields).flatMap(([key, text]) => (text === '' ? [] : `"${key}":${text}`));
    const text = `{${[...(more.text === '' ? [] : [more.text]), ...texts].join(',')}}`;
    const value = { name: name.value, categoryId: categoryId.value, status: status.value };
    const isGood = more.value && Object.values(value).every((each) => each !== undefined);
    return isGood ? { text, value: value as CreateRequest['pet'] } : { text };
  });

/** Three animals that differ only in their status, so that many requests have equal bodies. */
const rex: fc.Arbitrary<Text<CreateRequest['pet']>> = fc.constantFrom(...petStatuses).map((status) => ({
  text: `{"name":"Rex","categoryId":1,"status":"${status}"}`,
  value: { name: 'Rex', categoryId: 1n, status },
}));
const newPet = fc.oneof({ arbitrary: anyPet, weight: 2 }, { arbitrary: rex, weight: 1 });

/** How a text becomes bytes. `refused` is the status of the error if the service must reject the bytes. */
type Encoding = { bytes: (text: string) => Buffer; refused?: 400 | 413 };
const padded = (length: number) => (text: string) => {
  const bytes = Buffer.from(text);
  return Buffer.concat([bytes, Buffer.alloc(Math.max(0, length - bytes.length), ' ')]);
};
const encoding: fc.Arbitrary<Encoding> = mostly<Encoding, Encoding>(
  fc.constantFrom<Encoding[]>(
    { bytes: (text) => Buffer.from(text) },
    { bytes: (text) => Buffer.from(` \t\r\n${text}\n`) },
    { bytes: (text) => Buffer.from(`\ufeff${text}`) },
  ),
  fc.oneof(
    fc.nat(0xffff).map<Encoding>((at) => ({
      bytes: (text) => Buffer.from(text.slice(0, at % text.length)),
      refused: 400,
    })),
    fc.constantFrom<Encoding[]>(
      { bytes: padded(MAX_BYTES) },
      { bytes: padded(MAX_BYTES + 1), refused: 413 },
      { bytes: (text) => Buffer.from(text, 'utf16le'), refused: 400 },
      { bytes: (text) => Buffer.from(text + text), refused: 400 },
      { bytes: (text) => Buffer.from(`[${text}]`), refused: 400 },
    ),
    fc.json().map<Encoding>((json) => ({ bytes: () => Buffer.from(json), refused: 400 })),
  ),
);

export const body: fc.Arbitrary<Body> = fc
  .tuple(newPet, encoding)
  .map(([{ text, value }, { bytes, refused }]) => {
    if (refused !== undefined) return { bytes: bytes(text), refused };
    return value === undefined ? { bytes: bytes(text), refused: 400 } : { bytes: bytes(text), pet: value };
  });
