import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

/** The built files. The path is the same from src/server/ and, in the bundle, from dist/chunks/. */
const DIRECTORY = join(import.meta.dirname, '..', '..', 'dist', 'page');

/** The only file whose name does not contain a hash. */
const INDEX = 'index.html';

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** A file of the page. Each character of `body` and `gzipped` is one byte. */
export type PageFile = {
  contentType: string;
  cacheControl: string;
  etag: string;
  body: string;
  gzipped: string;
};

/** Reads the files of the page, by the paths at which they are served. */
export async function readPageFiles(): Promise<ReadonlyMap<string, PageFile>> {
  const names = await readdir(DIRECTORY);
  return new Map(
    await Promise.all(
      names.map(async (name): Promise<[string, PageFile]> => {
        const content = await readFile(join(DIRECTORY, name));
        const isIndex = name === INDEX;
        return [
          isIndex ? '/' : `/page/${name}`,
          {
            contentType: CONTENT_TYPES[extname(name)] ?? 'application/octet-stream',
            // The names of the other files contain a hash of their content.
            cacheControl: isIndex ? 'no-cache' : 'public, max-age=31536000, immutable',
            etag: `W/"${createHash('sha256').update(content).digest('hex').slice(0, 16)}"`,
            body: content.toString('latin1'),
            gzipped: gzipSync(content, { level: 9 }).toString('latin1'),
          },
        ];
      }),
    ),
  );
}
