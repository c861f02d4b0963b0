import { confusableLetters } from './confusable-letters.ts';

/**
 * What two names have in common that a person takes for one another: the skeleton of UTS 39 in lower case.
 * Exact for names whose skeleton has the characters of tool names; other letters stand for themselves.
 */
export function lookOf(name: string): string {
  const plain = name.normalize('NFD').replace(/\p{Default_Ignorable_Code_Point}/gu, '');
  let look = '';
  for (const letter of plain) look += prototypes.get(letter) ?? letter;
  return look.normalize('NFD').toLowerCase();
}

const prototypes: ReadonlyMap<string, string> = new Map(
  confusableLetters.split(' ').flatMap((group) => {
    const [prototype = '', distances = ''] = group.split(':');
    let code = 0;
    return distances.split(',').map((distance): [string, string] => {
      code += Number.parseInt(distance, 36);
      return [String.fromCodePoint(code), prototype];
    });
  }),
);
