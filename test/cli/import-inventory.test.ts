import { describe, expect, it, test } from 'vitest';
import { importing, type Reply } from '../helpers/import-commands.ts';
import {
  type InventoryOptions,
  inventoryWithoutKeys,
  type Loss,
  type StoredPet,
} from '../helpers/inventory.ts';
import { freshMachine, type ProgramOptions } from '../helpers/pets.ts';

const rex: StoredPet = { id: 1, name: 'Rex', categoryId: 3, status: 'available' };

/** A machine with a file of animals in category 3, and a service without idempotency keys. */
async function shop(
  names: string,
  { lost = {}, ...options }: InventoryOptions & { lost?: Record<string, Loss> } = {},
) {
  const service = await inventoryWithoutKeys(options);
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: service.url, key: 'pets_k' });
  const text = `name,category\n${names.replaceAll(/\S+/g, '$&,3').replaceAll(' ', '\n')}\n`;
  const file = await machine.file('a.csv', text);
  async function add(args: string[] = [], run: ProgramOptions = {}) {
    const { code, stdout, stderr } = await machine.pets(['import', file, ...args], run);
    const results = stdout.replaceAll(/\t+/g, ' ').replaceAll(/ $/gm, '').trimEnd().replaceAll('\n', '; ');
    return { code, results, stdout, stderr: stderr.replaceAll(file, 'FILE') };
  }
  return {
    service,
    add,
    /** Adds the file, and loses the responses in `lost`. Later responses are not lost. */
    async addWithLosses(): Promise<void> {
      service.lose = (name) => lost[name];
      expect((await add()).code).toBe(8);
      service.lose = () => undefined;
      service.sent.length = 0;
      service.lists = 0;
    },
    /** Runs the command again. It only seems to wait for the timeout of lost requests. */
    async settle(args: string[] = []) {
      const result = await add(args, { sleep: async () => {} });
      return { ...result, sent: service.sent.join(' ') };
    },
  };
}

type Shop = Awaited<ReturnType<typeof shop>>;
type Case = {
  file?: string;
  lost?: Record<string, Loss>;
  options?: InventoryOptions;
  /** Called between the run that loses responses and the next run. */
  between?: (service: Shop['service']) => void;
  results: string;
  sent?: string;
  notice?: string;
};

const LOST_REX = '2 added before 1 Max; 3 added before 2 Bella; 4 unknown Rex';
const LOLA = '5 added before 4 Lola';
const CLOSED = 'outcome unknown: other side closed';
const old = (count: number): StoredPet[] =>
  Array.from({ length: count }, (_, i) => ({ ...rex, id: i + 1, name: `old ${i}` }));

describe('a second import of unknown rows', () => {
  test.each<[string, Case]>([
    [
      'shows the candidates of a row, and sends a row without candidates, also if ids are text',
      {
        options: { idOf: (number) => `id-${number}` },
        lost: { Bella: 'after adding', Rex: 'before adding' },
        file: 'Lulu Max Bella Rex Lola',
        results:
          '2 added before id-1 Lulu; 3 added before id-2 Max; 4 unknown Bella may have been added as animal id-3; 5 added id-5 Rex; 6 added before id-4 Lola',
        sent: 'Rex',
        notice: 'note: compared 2 rows with 4 animals: 1 not added, 1 may have been added\n',
      },
    ],
    [
      'shows all candidates if an equal animal existed before',
      {
        options: { pets: [rex] },
        file: 'Rex Max Bella',
        results:
          '2 unknown Rex may have been added as one of the animals 1, 2; 3 added before 3 Max; 4 added before 4 Bella',
      },
    ],
    [
      'compares rows also if other clients add animals while the pages are read',
      {
        options: { pageSize: 1 },
        between(service) {
          // The list has the newest animal first, so each new animal moves the others to later pages.
          service.onList = (_, offset) => {
            if (offset < 3) service.pets.unshift({ ...rex, id: 100 + offset, name: 'New' });
            return false;
          };
        },
        results: `${LOST_REX} may have been added as animal 3; ${LOLA}`,
      },
    ],
    [
      'leaves rows unknown if the list ends with a full page without a link',
      {
        options: { pets: old(97) },
        file: 'Max Rex Lola',
        results: `2 added before 98 Max; 3 unknown Rex ${CLOSED}; 4 added before 100 Lola`,
        notice: 'the service sends no link to a next page\n',
      },
    ],
    [
      'sends the only row if there are no animals',
      { file: 'Rex', lost: { Rex: 'before adding' }, results: '2 added 1 Rex', sent: 'Rex' },
    ],
  ])('%s', async (_, { file = 'Max Bella Rex Lola', lost = { Rex: 'after adding' }, ...more }) => {
    const { options, between, notice = '', ...expected } = more;
    const { addWithLosses, settle, service } = await shop(file, { lost, ...options });
    await addWithLosses();
    between?.(service);
    const { code, results, sent, stderr } = await settle();
    expect({ results, sent }).toEqual({ sent: '', ...expected });
    expect(code).toBe(results.includes('unknown') ? 8 : 0);
    expect(stderr).toContain(notice);
  });

  it.each<[string, Reply, boolean, number, string]>([
    ['waits for the request of a lost row', 'lost', false, 30_000, 'waiting 30 s (earlier requests may'],
    ['compares a row that was interrupted', 'interrupt', false, 30_000, 'searching the inventory for 1 row'],
    ['repeats an interrupted row if the service supports keys', 'interrupt', true, 0, 'added 1 of 1 row'],
  ])('%s', async (_, reply, supportsKeys, expected, notice) => {
    const { run } = await importing({ supportsKeys, text: 'name,category\nRex,1\n' });
    let waited = 0;
    const onSleep = (milliseconds: number) => {
      waited += milliseconds;
    };
    await run(
      { replies: { Rex: reply }, code: reply === 'lost' ? 8 : 130 },
      { onSleep, sends: 'Rex', keys: supportsKeys ? 1 : 2, stderr: notice },
    );
    expect(waited).toBe(expected);
  });

  it('settles and sends nothing if the list is cut', async () => {
    const lost = { Rex: 'before adding' } as const;
    const { addWithLosses, settle, service } = await shop('Max Bella Rex', { lost, pageSize: 1 });
    await addWithLosses();
    service.onList = (response, offset) => {
      if (offset >= 1) response.destroy();
      return offset >= 1;
    };
    expect(await settle(['--no-retry'])).toMatchObject({ code: 6, stdout: '', sent: '' });
    service.onList = () => false;
    expect((await settle()).results).toBe('2 added before 1 Max; 3 added before 2 Bella; 4 added 3 Rex');
  });

  it('does not take the animal of an equal row for the animal of a row', async () => {
    const { add, settle, service } = await shop('Max Rex Rex');
    let count = 0;
    service.lose = (name) => (name === 'Rex' && ++count === 2 ? 'before adding' : undefined);
    expect((await add()).code).toBe(8);
    service.lose = () => undefined;
    expect((await settle()).results).toBe('2 added before 1 Max; 3 added before 2 Rex; 4 added 3 Rex');
  });
});
