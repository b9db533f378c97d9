import { describe, expect, test } from 'vitest';
import { ContractError } from '../../src/client/errors.ts';
import { listPages } from '../../src/client/pages.ts';
import { failureOf, PET, testClient } from '../helpers/client.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

describe('pages', () => {
  const collect = async (handler: Handler, pageSize = 2) => {
    const server = await scriptedServer(handler);
    const { client } = testClient(server.url);
    const pages: { count: number; more: string }[] = [];
    for await (const { pets, more } of listPages(client, { limit: pageSize }, pageSize)) {
      pages.push({ count: pets.length, more });
    }
    return { pages, server };
  };

  test('follow the next links to the end', async () => {
    const { pages, server } = await collect((_, response, count) =>
      reply(response, 200, [PET, PET], count < 3 ? { Link: `</v1/pets?cursor=${count}>; rel="next"` } : {}),
    );
    expect(server.requests.map(({ url }) => url)).toEqual([
      '/v1/pets?limit=2',
      '/v1/pets?cursor=1',
      '/v1/pets?cursor=2',
    ]);
    // A full page without a link is the last, where others had one.
    expect(pages.map(({ more }) => more)).toEqual(['yes', 'yes', 'no']);
  });

  test.each([
    ['a page that is not full and has no link', [PET], {}, 'no'],
    ['a full page without a link', [PET, PET], {}, 'unknown'],
    ['a link of another relation', [PET], { Link: '</v1/pets?a>; rel="prev"' }, 'no'],
    [
      'a relation among others, without quotes, in another header',
      [PET],
      { Link: ['</a>; rel=prev', '<?b=1>; title="a, b"; rel="x next"'] },
      'yes',
    ],
  ])('%s', async (_name, body, headers, more) => {
    const { pages } = await collect((_, response, count) =>
      reply(response, 200, count === 1 ? body : [], count === 1 ? headers : {}),
    );
    expect(pages[0]?.more).toBe(more);
  });

  test('refuse a link to another origin: the key is not sent there', async () => {
    const other = await scriptedServer((_, response) => reply(response, 200, []));
    const error = await failureOf(
      collect((_, response) => reply(response, 200, [PET], { Link: `<${other.url}/pets>; rel="next"` })),
    );
    expect(error).toBeInstanceOf(ContractError);
    expect(other.requests).toEqual([]);
  });

  test('refuse a link that is no address', async () => {
    const error = await failureOf(
      collect((_, response) => reply(response, 200, [PET], { Link: '<http://[>; rel="next"' })),
    );
    expect(error).toBeInstanceOf(ContractError);
    expect((error as Error).message).toContain('http://[');
  });

  test('refuse to go on from one empty page to the next', async () => {
    const asked: number[] = [];
    const error = await failureOf(
      collect((_, response, count) => {
        asked.push(count);
        reply(response, 200, [], { Link: `</v1/pets?cursor=${count}>; rel="next"` });
      }),
    );
    expect(error).toBeInstanceOf(ContractError);
    expect(asked).toHaveLength(11);
  });

  test('go on over many that are empty, where some in between are not', async () => {
    const { pages } = await collect((_, response, count) =>
      reply(
        response,
        200,
        count % 8 === 0 ? [PET] : [],
        count < 32 ? { Link: `</v1/pets?cursor=${count}>; rel="next"` } : {},
      ),
    );
    expect(pages).toHaveLength(32);
  });

  test('refuse to go in a circle', async () => {
    const error = await failureOf(
      collect((_, response, count) =>
        reply(response, 200, [PET], { Link: `</v1/pets?cursor=${count % 2}>; rel="next"` }),
      ),
    );
    expect(error).toBeInstanceOf(ContractError);
    expect((error as Error).message).toContain('circle');
  });
});
