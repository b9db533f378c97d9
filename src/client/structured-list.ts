import { type HttpHeaders, readHeaders } from './response.ts';

/** A member of a list (RFC 9651), such as `"minute";r=0;t=30`: its name and its integer parameters. */
type Member = { name: string | undefined; integers: Record<string, number | undefined> };

/** Matches a member of a list: a name may contain commas within quotes. */
const MEMBER = /(?:"(?:[^"\\]|\\.)*"|[^,])+/g;
/** Matches the name of a member, with or without quotes. */
const MEMBER_NAME = /^\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;="]+)\s*(?=;|$))/;

/** Reads the members of a header that is a list. */
export function readMembers(headers: HttpHeaders, name: string): Member[] {
  return (readHeaders(headers, name).join().match(MEMBER) ?? []).map((member) => {
    const [whole = '', quoted, token] = MEMBER_NAME.exec(member) ?? [];
    return {
      name: quoted?.replace(/\\(.)/g, '$1') ?? token,
      integers: readIntegers(member.slice(whole.length)),
    };
  });
}

/** The integers in a list of parameters such as `;r=0;t=30`, by name. */
function readIntegers(parameters: string): Record<string, number | undefined> {
  const matches = parameters.matchAll(/(?:^|;)\s*([a-z]+)=(\d+)\s*(?=;|$)/g);
  return Object.fromEntries([...matches].map(([, name, digits]) => [name, Number(digits)]));
}
