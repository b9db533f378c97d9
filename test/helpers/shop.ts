import { type Handler, reply } from './scripted-server.ts';

type Animal = Record<string, unknown>;

export type ShopOptions = {
  /** The rate-limit windows, which the responses report. By default, there are none. */
  windows?: { name: string; limit: number; seconds: number }[];
  /** How many requests others have already sent in each window. */
  spent?: number;
  /** Whether a page has a link to the next one. */
  hasLinks?: boolean;
};

/** Responds to `GET /pets` with pages of these animals, as the service does: filtered by status, with links. */
export function shopOf(animals: readonly Animal[], options: ShopOptions = {}): Handler {
  const { windows = [], spent = 0, hasLinks = true } = options;
  return ({ url = '' }, response, count) => {
    const query = new URL(url, 'http://host').searchParams;
    const [limit, start, status] = [
      Number(query.get('limit') ?? 20),
      Number(query.get('cursor') ?? 0),
      query.get('status'),
    ];
    const all = animals.filter((animal) => status === null || animal['status'] === status);
    const next = new URLSearchParams({ ...Object.fromEntries(query), cursor: String(start + limit) });
    const left = windows.map(
      ({ name, limit: q, seconds }) => `"${name}";r=${q - spent - count};t=${seconds}`,
    );
    const policies = windows.map(({ name, limit: q, seconds }) => `"${name}";q=${q};w=${seconds}`);
    reply(response, 200, all.slice(start, start + limit), {
      ...(hasLinks && start + limit < all.length && { Link: `</v1/pets?${next}>; rel="next"` }),
      ...(windows.length > 0 && { RateLimit: left.join(', '), 'RateLimit-Policy': policies.join(', ') }),
    });
  };
}

const NAMES = ['Rex', 'Bella', 'Zoë', 'T-Rex', 'Max'];
const STATUSES = ['available', 'sold'];

/** Animals with ids from 1 on, five names, two statuses and the categories 1 to 3. */
export const manyAnimals = (count: number): Animal[] =>
  Array.from({ length: count }, (_, i) => ({
    id: i + 1,
    name: NAMES[i % NAMES.length],
    categoryId: (i % 3) + 1,
    status: STATUSES[i % STATUSES.length],
  }));
