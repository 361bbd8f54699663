import { kept } from "./storage";

/** A list of the writer's own, which only this browser has. */
export interface MyList {
  name: string;
  lang: string;
  /** In rank order. */
  words: string[];
}

export const myLists = kept<MyList[]>("lists", []);
