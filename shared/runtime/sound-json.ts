/**
 * Whether JSON.parse of this engine may read the name of a member wrong where it is written with an escape,
 * as V8 of Node.js 24 does: it compares the name that it expects next with the text as written. After an
 * object with the name `\` was read once, `{"\u0061":1}` has a member `\`. So whoever sends both decides what
 * this process reads, and another parser reads what they mean.
 */
export function misreadsNames(): boolean {
  JSON.parse('{"sound":0,"\\\\":0}');
  return !('a' in JSON.parse('{"sound":0,"\\u0061":0}'));
}

/**
 * In such an engine, has names of members without escapes before they are read. Else does nothing. Called by
 * programs, once in each thread that reads what others have written: a library must not change the process
 * around it. A reviver is not called for a text with a name that only an escape can write: SyntaxError.
 */
export function repairJsonParse(): void {
  if (misreadsNames()) JSON.parse = soundParse(JSON.parse);
}

type Parse = typeof JSON.parse;

export const soundParse =
  (parse: Parse): Parse =>
  (text, reviver) => {
    const written = `${text}`;
    if (!written.includes('\\')) return parse(written, reviver);
    const names: string[] = [];
    const plain = written.replaceAll(stringOrName, (token, string: string, colon: string | undefined) => {
      if (colon === undefined || !(string.includes('\\') || string[1] === mark)) return token;
      const name: string = parse(string);
      const asRead = JSON.stringify(name);
      // What needs an escape, or looks like what stands for such a name, is a number until it is read.
      if (!asRead.includes('\\') && name[0] !== mark) return asRead + colon;
      return `"${mark}${names.push(name) - 1}"${colon}`;
    });
    if (names.length === 0) return parse(plain, reviver);
    if (reviver !== undefined) throw new SyntaxError('A name of a member needs an escape.');
    return withNames(parse(plain), names);
  };

/** Of private use, so hardly the first character of a name. */
const mark = '\u{e000}';

/** A string, and a colon if it is a name. In linear time. */
const stringOrName = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?/gs;

function withNames(value: unknown, names: readonly string[]): unknown {
  if (Array.isArray(value)) return value.map((each) => withNames(each, names));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      name[0] === mark ? names[Number(name.slice(1))] : name,
      withNames(each, names),
    ]),
  );
}
