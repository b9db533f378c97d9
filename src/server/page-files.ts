import { createHash } from 'node:crypto';
import { extname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { listBundledFiles, readBundledText } from '../system/bundled-files.ts';

/** The directory of the build. The path is the same from src/server/ and, in the bundle, from dist/chunks/. */
const DIST = join(import.meta.dirname, '..', '..', 'dist');
const FOLDER = 'page';

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
export function readPageFiles(): ReadonlyMap<string, PageFile> {
  return new Map(
    listBundledFiles(DIST, FOLDER).map((name): [string, PageFile] => {
      const content = Buffer.from(readBundledText(DIST, `${FOLDER}/${name}`));
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
  );
}
