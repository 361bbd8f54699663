"""Programs for who works on this repository; nothing that is installed imports them.

``lists`` builds the data of the word lists (``make lists``), ``docs`` what the site of the documentation generates
(``make docs``), and ``pins`` the constraint files (``make constraints``).
"""
