/** The functions and operators of conditions: what they take, for checker and forms. */

/** The kind of a value; `dyn`: known only when it is evaluated. */
export type Kind =
  | 'bool'
  | 'int'
  | 'double'
  | 'string'
  | 'null'
  | 'timestamp'
  | 'duration'
  | 'list'
  | 'map'
  | 'dyn';
export interface Overload {
  readonly takes: readonly Kind[];
  readonly gives: Kind;
}
interface ConditionFunction {
  readonly overloads: readonly Overload[];
  /** How source calls it: `size(x)`, `x.size()`, or both. Operators have syntax of their own. */
  readonly style: 'operator' | 'function' | 'method' | 'both';
}

/** `"int int: bool"` takes two ints and gives a bool. */
const overload = (text: string): Overload => {
  const [takes = '', gives = ''] = text.split(': ');
  return { takes: takes.split(' ') as Kind[], gives: gives as Kind };
};
const define = (style: ConditionFunction['style'], ...texts: string[]): ConditionFunction => ({
  style,
  overloads: texts.map(overload),
});

const ordered = ['bool', 'string', 'timestamp', 'duration'].map((kind) => `${kind} ${kind}: bool`);
const numbers = ['int int: bool', 'double double: bool', 'int double: bool', 'double int: bool'];
const comparison = define('operator', ...numbers, ...ordered);
const equality = define('operator', 'dyn dyn: bool');
const ofText = define('method', 'string string: bool');
const ofTime = define('method', 'timestamp: int', 'timestamp string: int');
const ofTimeAndDuration = define('method', 'timestamp: int', 'timestamp string: int', 'duration: int');

export const conditionFunctions: ReadonlyMap<string, ConditionFunction> = new Map(
  Object.entries({
    '!_': define('operator', 'bool: bool'),
    '-_': define('operator', 'int: int', 'double: double'),
    '_==_': equality,
    '_!=_': equality,
    '_<_': comparison,
    '_<=_': comparison,
    '_>_': comparison,
    '_>=_': comparison,
    '_+_': define(
      'operator',
      ...['int int: int', 'double double: double', 'string string: string', 'list list: list'],
      ...['timestamp duration: timestamp', 'duration timestamp: timestamp', 'duration duration: duration'],
    ),
    '_-_': define(
      'operator',
      ...['int int: int', 'double double: double', 'timestamp timestamp: duration'],
      ...['timestamp duration: timestamp', 'duration duration: duration'],
    ),
    '_*_': define('operator', 'int int: int', 'double double: double'),
    '_/_': define('operator', 'int int: int', 'double double: double'),
    '_%_': define('operator', 'int int: int'),
    '@in': define('operator', 'dyn list: bool', 'dyn map: bool'),
    size: define('both', 'string: int', 'list: int', 'map: int'),
    contains: ofText,
    startsWith: ofText,
    endsWith: ofText,
    matches: define('both', 'string string: bool'),
    bool: define('function', 'bool: bool', 'string: bool'),
    int: define('function', 'int: int', 'double: int', 'string: int', 'timestamp: int'),
    double: define('function', 'double: double', 'int: double', 'string: double'),
    string: define(
      'function',
      ...['string: string', 'bool: string', 'int: string', 'double: string'],
      ...['timestamp: string', 'duration: string'],
    ),
    timestamp: define('function', 'timestamp: timestamp', 'string: timestamp', 'int: timestamp'),
    duration: define('function', 'duration: duration', 'string: duration'),
    getFullYear: ofTime,
    getMonth: ofTime,
    getDate: ofTime,
    getDayOfMonth: ofTime,
    getDayOfWeek: ofTime,
    getDayOfYear: ofTime,
    getHours: ofTimeAndDuration,
    getMinutes: ofTimeAndDuration,
    getSeconds: ofTimeAndDuration,
    getMilliseconds: ofTimeAndDuration,
  }),
);

/** As people write it: `+`, `in`, `size()`. */
export function printedFunction(name: string): string {
  return /\W/.test(name) ? `'${name.replaceAll(/[_@]/g, '')}'` : `${name}()`;
}
