"""System tables for master.info and relay_log.info (WL#2775): where a replica keeps its positions.

``rpl_info_handler`` is the interface, ``rpl_info_table`` and ``rpl_info_file`` are the two kinds of
repository behind it, ``rpl_info_factory`` chooses and migrates at a start. ``master_info`` and
``relay_log_info`` say what is stored, ``worker_info`` what several workers add. ``recovery`` reads
everything back, ``crash_points`` names the steps between which a server may die.
"""
