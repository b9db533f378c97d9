import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { renderCsv } from '../../src/cli/output/csv.ts';
import type { RawRow } from '../../src/cli/rows/row.ts';
import { stringifyJson } from '../../src/contract/json.ts';
import { rowsOf } from '../helpers/rows.ts';

describe('rows that were written are read back unchanged', () => {
  const name = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.constantFrom(...('\'"=+-@,;\t\r\n a é🐈'.match(/./gsu) ?? [])) }),
  );
  const categoryId = fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n);
  const pets = fc.array(fc.record({ name, categoryId }));
  /** Splits the bytes at these positions. */
  const cutAt = (text: string, cuts: number[]) => {
    const bytes = Buffer.from(text);
    const bounds = [
      0,
      ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b),
      bytes.length,
    ];
    return bounds.slice(1).map((to, i) => bytes.subarray(bounds[i], to));
  };
  const cuts = fc.array(fc.nat(), { maxLength: 5 });
  const valuesOf = (rows: RawRow[]) => rows.map((row) => ('error' in row ? row.error : row.value));

  test('CSV written by pets list --csv', () =>
    fc.assert(
      fc.asyncProperty(pets, cuts, async (animals, at) => {
        const rows = animals.map((pet) => [pet.name, pet.categoryId]);
        const text = renderCsv([['name', 'categoryId'], ...rows]);
        expect(valuesOf(await rowsOf('csv', ...cutAt(text, at)))).toEqual(animals);
      }),
    ));

  test('CSV written by other programs', () =>
    fc.assert(
      fc.asyncProperty(
        pets,
        cuts,
        fc.constantFrom(',', ';'),
        fc.constantFrom('\n', '\r\n', '\r'),
        async (animals, at, delimiter, record_delimiter) => {
          // A name that looks as if pets had escaped a formula is unescaped.
          const plain = animals.filter((pet) => !pet.name.startsWith("'"));
          const rows = plain.map((pet) => [String(pet.categoryId), pet.name]);
          const text = stringify([['category', 'name'], ...rows], {
            delimiter,
            record_delimiter,
            quoted: true,
          });
          expect(valuesOf(await rowsOf('csv', ...cutAt(text, at)))).toEqual(plain);
        },
      ),
    ));

  test('NDJSON, and JSON with and without line ends, with the line of each value', () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue()), fc.nat(3), cuts, async (written, indent, at) => {
        const texts = written.map((value) => JSON.stringify(value));
        const lines = await rowsOf('ndjson', ...cutAt(texts.join('\n'), at));
        expect(lines.map(({ line }) => line)).toEqual(texts.map((_, i) => i + 1));
        const pretty = JSON.stringify(written, undefined, indent);
        const elements = await rowsOf('json', ...cutAt(pretty, at));
        for (const rows of [lines, elements])
          expect(valuesOf(rows).map((value) => stringifyJson(value))).toEqual(texts);
        let line = 1 + Math.min(indent, 1);
        for (const [i, row] of elements.entries()) {
          expect(row.line).toBe(line);
          if (indent > 0) line += JSON.stringify(written[i], undefined, indent).split('\n').length;
        }
      }),
    ));
});
