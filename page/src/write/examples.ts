import { unspacedOf } from "../text/language";

/** Requests to begin with, by language. */
const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  ar: ["قصة عن كلب وجد خريطة", "يوم في المدرسة"],
  de: ["Eine Geschichte über einen Hund, der eine Karte findet", "Ein Tag am Meer", "Ein Brief an eine Freundin"],
  en: ["A story about a dog who finds a map", "A day at the sea", "A letter to a friend about a new school"],
  es: ["Una historia sobre un perro que encuentra un mapa", "Un día en el mar", "Una carta a una amiga"],
  fr: ["L'histoire d'un chien qui trouve une carte", "Une journée à la mer", "Une lettre à une amie"],
  it: ["La storia di un cane che trova una mappa", "Un giorno al mare", "Una lettera a un'amica"],
  ja: ["地図を見つけた犬の話", "海での一日", "友だちへの手紙"],
  nl: ["Een verhaal over een hond die een kaart vindt", "Een dag aan zee"],
  pt: ["A história de um cão que encontra um mapa", "Um dia no mar"],
  ru: ["История о собаке, которая нашла карту", "День на море"],
  th: ["เรื่องของหมาตัวหนึ่งที่พบแผนที่", "วันหนึ่งที่ทะเล", "จดหมายถึงเพื่อน"],
  tr: ["Bir harita bulan bir köpeğin hikâyesi", "Deniz kenarında bir gün"],
  zh: ["一只狗找到一张地图的故事", "海边的一天", "给朋友的一封信"],
  "zh-Hant": ["一隻狗找到一張地圖的故事", "海邊的一天", "給朋友的一封信"],
};

/** In no language. */
const PICTURES = ["🐕 🗺️ 🌳", "👧 🏖️ ☀️", "👵 ✉️ 🏠"];

/** Return requests to begin with in a language; a list of the service's own may be named for one: "en-school". */
export function examplesFor(lang: string): readonly string[] {
  return EXAMPLES[unspacedOf(lang) ?? lang] ?? EXAMPLES[lang.split(/[-_]/)[0]!] ?? PICTURES;
}
