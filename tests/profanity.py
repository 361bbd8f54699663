"""Words that a text for everybody has not: lists that the built-in lists were not made from.

English, German, Spanish: the entries of high severity in the dictionaries of ``terlik`` 0.1.0; French: entries of
``french-badwords-list`` 1.0.7. Both packages are under the MIT License. Left out here: misspellings that no list
has, mild insults, and harmless words such as Spanish "conos", cones.
"""

from typing import Final

_WORDS: Final = {
    "en": """apeshit arsehole arseholes asshole assholes batshit beaner beaners bestiality bitch bitches bitching
        bitchy blowjob blowjobs bukkake bullshit chink chinks clit clitoris clits clusterfuck cock cocks
        cocksucker cocksucking coon coons creampie creampies cum cummed cumming cumshot cumshots cunt cunts darkie
        darkies deepthroat dipshit dyke dykes fag faggot faggots fags felching fellatio fingerbang fisted fisting
        fuck fucked fucker fuckers fuckery fuckface fuckhead fucking fuckoff fucks fucktard fuckup fuckwad fuckwit
        gangbang gangbanged gook gooks handjob handjobs homo homos honkey horseshit incest incestuous jailbait
        jigaboo jizz jizzed kike kikes lesbo milf milfs mofo motherfucker motherfucking negro negroes nigga niggas
        nigger niggers paedophile paki pakis pedo pedophile pedophiles poof poofs poontang pussies pussy raghead
        rape raped rapes raping rapist rapists retard retarded retards rimjob rimming shemale shit shitbag shite
        shitface shitfaced shithead shithole shithouse shitlist shitload shits shitshow shitstorm shitting shitty
        slut sluts slutty sodomize sodomized sodomy sonofabitch spastic spastics spic stfu tranny trannies twat
        twats upskirt wetback whore whores whorish wog wogs wop wtf""",
    "de": """abgefickt arsch arschbacke arschgeige arschgesicht arschkriecher arschloch arschlöcher beschissen drecksau
        fick ficken ficker fickerei fotze fotzen gefickt gewichst hackfresse hure huren hurensohn hurensöhne
        missgeburt missgeburten scheiss scheisse scheissegal scheisser scheiße scheißegal scheißer schlampe
        schlampen schwuchtel schwuchteln spast spasten spasti verfickt wichse wichsen wichser wichsern""",
    "es": """cabrón cabrona cabronazo cabrones chinga chingada chingadera chingado chingados chingar chingas chingo
        chingón chingona chingue coñazo coño coños follada follado follando follar gilipollas gilipolleces
        hijaputa hijoputa joder joderse jodida jodidas jodido jodidos jodiendo marica maricas maricón maricones
        mierda mierdas pendeja pendejada pendejas pendejo pendejos polla pollas puta putada putas putear putero
        puto putón putos soplapollas verga vergas zorra zorras""",
    "fr": """bâtard bordel bougnoule branler branleur chier chieur connard connarde connasse conne cons couille
        couilles couillon cul emmerder emmerdeur emmerdeuse enculé enculer enculeur enfoiré étron fdp fiotte
        foutre gouine grognasse merde merdeux negro niquer ntm pétasse pouffiasse putain pute salaud salop
        salopard salope saloperie tapette tarlouze trouduc""",
}  # fmt: skip

PROFANITY: Final = {lang: frozenset(words.split()) for lang, words in _WORDS.items()}
"""By language, in small letters."""
