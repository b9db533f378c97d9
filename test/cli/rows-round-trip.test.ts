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
  const valuesOf = (rows: RawRow[]) => rows.map((row) => ('error' in row ? row.error : row.value));

  test('CSV written by pets list --csv', () =>
    fc.assert(
      fc.property(pets, (animals) => {
        const rows = animals.map((pet) => [pet.name, pet.categoryId]);
        const text = renderCsv([['name', 'categoryId'], ...rows]);
        expect(valuesOf(rowsOf('csv', text))).toEqual(animals);
      }),
    ));

  test('CSV written by other programs', () =>
    fc.assert(
      fc.property(
        pets,
        fc.constantFrom(',', ';'),
        fc.constantFrom('\n', '\r\n', '\r'),
        (animals, delimiter, record_delimiter) => {
          // Leave out names that start with `'`, because pets reads them as escaped formulas.
          const plain = animals.filter((pet) => !pet.name.startsWith("'"));
          const rows = plain.map((pet) => [String(pet.categoryId), pet.name]);
          const text = stringify([['category', 'name'], ...rows], {
            delimiter,
            record_delimiter,
            quoted: true,
          });
          expect(valuesOf(rowsOf('csv', text))).toEqual(plain);
        },
      ),
    ));

  test('NDJSON, and JSON with and without line ends, with the line of each value', () =>
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.nat(3), (written, indent) => {
        const texts = written.map((value) => JSON.stringify(value));
        const lines = rowsOf('ndjson', texts.join('\n'));
        expect(lines.map(({ line }) => line)).toEqual(texts.map((_, i) => i + 1));
        const pretty = JSON.stringify(written, undefined, indent);
        const elements = rowsOf('json', pretty);
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
